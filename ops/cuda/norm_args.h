// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernels in norm.cu.

#ifndef OG_OPS_CUDA_NORM_ARGS_H
#define OG_OPS_CUDA_NORM_ARGS_H

#include <stdint.h>

typedef struct norm_args {
  const void *x;       // [rows, width]
  void *residual;      // [rows, width]: x is added to it first; NULL: none
  const void *weight;  // [width]
  void *y;             // [rows, width], may be x
  int64_t rows, width;
  float eps;
  float offset;        // that weight is to be added to
  int32_t lanes;       // threads of a row: a power of 2; the block above 32
  int32_t is_aligned;  // every row is at a multiple of 16 bytes
} norm_args;

#endif  // OG_OPS_CUDA_NORM_ARGS_H
