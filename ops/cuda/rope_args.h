// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernels in rope.cu.

#ifndef OG_OPS_CUDA_ROPE_ARGS_H
#define OG_OPS_CUDA_ROPE_ARGS_H

#include <stdint.h>

enum { ROPE_PAIRS_MAX = 256 };

// q or k, [tokens, heads, width]; strides count elements.
typedef struct rope_tensor {
  const void *from;
  void *to;
  int64_t from_token, from_head, to_token, to_head;
  int64_t heads;
} rope_tensor;

typedef struct rope_args {
  rope_tensor tensor[2];
  const void *positions;  // [tokens], of 32 or 64 bits
  int64_t tokens, width;
  int32_t half;            // pairs that turn
  int32_t is_interleaved;  // pairs are neighbours, else halves apart
  int32_t is_aligned;      // eights of pairs are at multiples of 16 bytes
  int32_t position_bits;
  float sign;  // -1 turns back
  int32_t reserved;
  // Turns for each position, in two parts, as much as a double has.
  float turns_high[ROPE_PAIRS_MAX], turns_low[ROPE_PAIRS_MAX];
} rope_args;

#endif  // OG_OPS_CUDA_ROPE_ARGS_H
