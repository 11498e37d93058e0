// SPDX-License-Identifier: Apache-2.0
// What the launches of the library's CUDA kernels have in common.

#ifndef OG_OPS_CUDA_LAUNCH_H
#define OG_OPS_CUDA_LAUNCH_H

#include <opgraft/cuda.h>
#include <stddef.h>

// A kernel record for CUDA, as a further argument of OG_KERNELS_BY_ISA.
#define OG_CUDA_KERNEL(types, supports_fn, run_fn)                   \
  {                                                                  \
    .device = OG_CUDA, .dtypes = (types), .supports = (supports_fn), \
    .run = (run_fn)                                                  \
  }

// A grid of blocks of one dimension, with one struct as its parameter.
static inline og_status og_cuda_run(const og_call *call,
                                    const og_cuda_code *code,
                                    const char *kernel, int64_t blocks,
                                    uint32_t threads, void *args) {
  if (blocks <= 0) return OG_OK;
  if (blocks > INT32_MAX)
    return og_fail(call, OG_SHAPE,
                   "the tensors need more than 2147483647 blocks of a CUDA "
                   "grid; split them");
  const og_cuda_shape shape = {
      .grid = {(uint32_t)blocks},
      .block = {threads},
      .tensor = call->out[0],
  };
  return og_cuda_launch(call, code, kernel, &shape, &args, 1);
}

static inline int og_cuda_at_16(const void *p) {
  return (uintptr_t)p % 16 == 0;
}

static inline int64_t og_min64(int64_t a, int64_t b) { return a < b ? a : b; }

#endif  // OG_OPS_CUDA_LAUNCH_H
