// SPDX-License-Identifier: Apache-2.0
// The host's threads: torch's own pool, through the shim.

#ifndef OG_TORCH_THREADS_H
#define OG_TORCH_THREADS_H

#include <opgraft/executable.h>

#include "torch/base/host.h"

// The host's threads, for a frame whose arguments have `bytes` in all: a call
// too small to share out is told of one thread.
void threads_set(og_call *call, int64_t bytes);
int threads_setup(void);  // once a process
int64_t frame_bytes(const opgraft_frame *frame, int32_t tensor_count);
void threads_host(opgraft_host *host);

#endif  // OG_TORCH_THREADS_H
