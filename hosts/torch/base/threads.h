// SPDX-License-Identifier: Apache-2.0
// The host's threads: torch's own pool, through the shim.

#ifndef OG_TORCH_THREADS_H
#define OG_TORCH_THREADS_H

#include <opgraft/executable.h>

#include "torch/base/host.h"

// Below these sizes a call stays on the thread that makes it, and a call or a
// graph keeps the interpreter lock. Loops inside kernels have limits of their
// own (base/grain.h).
enum {
  THREADS_LEAST_BYTES = 4096,  // of a call's tensors; fewer: one thread
  // Of a call's tensors, or a graph's results. To release the lock costs more
  // than fewer bytes do.
  UNLOCK_LEAST_BYTES = 1 << 15,
  LIST_BYTES = 1 << 16,  // that a list of tensors counts as: above all limits
  GRAIN_CALLS = 4096,    // of a C function that is called for each element
};

// The host's threads, for a frame whose arguments have `bytes` in all: a call
// too small to share out is told of one thread.
void threads_set(og_call *call, int64_t bytes);
int threads_setup(void);  // once a process
int64_t frame_bytes(const opgraft_frame *frame, int32_t tensor_count);
void threads_host(opgraft_host *host);

#endif  // OG_TORCH_THREADS_H
