// SPDX-License-Identifier: Apache-2.0
// Inputs that a graph writes share memory with no other input.

#ifndef OG_EXEC_REPLAY_APART_H
#define OG_EXEC_REPLAY_APART_H

#include "exec/step/exec.h"

// Finds the inputs that the graph writes.
og_status og_apart_make(og_instance *instance, opgraft_error *error);
// That no written input overlaps itself or another one, of an instance that
// has any; `moves` inputs lie elsewhere than at the last check. Failure:
// OG_INVALID, with both names.
og_status og_apart_check(const og_instance *instance,
                         const og_tensor *const *in, int32_t moves,
                         opgraft_error *error);

#endif  // OG_EXEC_REPLAY_APART_H
