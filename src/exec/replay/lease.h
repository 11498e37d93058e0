// SPDX-License-Identifier: Apache-2.0
// The process's arenas: each call leases one of each device that it needs.

#ifndef OG_EXEC_REPLAY_LEASE_H
#define OG_EXEC_REPLAY_LEASE_H

#include "exec/step/exec.h"

// Memory of at least `size_bytes` on `device`, for one call; `wanted` is tried
// first (it may be gone). `stream` is the device's that uses it, NULL on the
// CPU: it runs behind whoever used the memory before. OG_DEVICE where graphs do
// not run on the device, OG_MEMORY. Any thread.
og_status og_lease_take(og_device device, size_t size_bytes, void *stream,
                        og_lease *wanted, og_lease **out_lease,
                        void **out_memory, opgraft_error *error);
void og_lease_give(og_lease *lease);
// A plan wants an arena of this size; idle arenas of the device are kept while
// they are no larger together than what its plans want. OG_MEMORY.
og_status og_lease_want(og_device device, size_t size_bytes,
                        opgraft_error *error);
// Such a plan is gone.
void og_lease_unwant(og_device device, size_t size_bytes);
// Extra bytes if plans did not share arenas, of all devices.
int64_t og_lease_shared_bytes(void);

#endif  // OG_EXEC_REPLAY_LEASE_H
