// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernels in gated.cu.

#ifndef OG_OPS_CUDA_GATED_ARGS_H
#define OG_OPS_CUDA_GATED_ARGS_H

#include <stdint.h>

enum { GATED_SILU, GATED_GELU, GATED_GELU_TANH };

typedef struct gated_args {
  const void *x;  // [rows, 2 * half]: gates, then factors
  void *y;        // [rows, half]
  int64_t rows, half;
  int64_t row_pieces;  // eights of a row of y, the last may be cut
  int32_t kind;        // GATED_SILU, ...
  int32_t is_aligned;  // every half of a row is at a multiple of 16 bytes
} gated_args;

#endif  // OG_OPS_CUDA_GATED_ARGS_H
