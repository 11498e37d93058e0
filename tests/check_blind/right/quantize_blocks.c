// SPDX-License-Identifier: Apache-2.0
// quantize_blocks: int8 with a scale for each 32 neighbours of a row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { BLOCK = 32 };

static int8_t nearest(float x, float scale) {
  const float v = scale > 0 ? rintf(x / scale) : 0;
  if (!(v == v)) return 0;
  return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], blocks = (width + BLOCK - 1) / BLOCK;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b * BLOCK;
      const int64_t last = first + BLOCK < width ? first + BLOCK : width;
      const float *x = og_f32(call->in[0]) + r * width;
      float top = 0;
      for (int64_t i = first; i < last; ++i)
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
      for (int64_t i = first; i < last; ++i)
        og_i8_mut(call->out[0])[r * width + i] = nearest(x[i], top / 127);
      og_f32_mut(call->out[1])[r * blocks + b] = top / 127;
    }
}

static og_status quantize_blocks(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(quantize_blocks,
       {.schema = "quantize_blocks(Tensor x) -> (Tensor q, Tensor scale)",
        .shape = "x[*N, D] -> [*N, D], [*N, ceildiv(D, 32)]",
        .dtype = "x: f32 -> i8, f32",
        .doc = "scale is the largest magnitude of a block over 127, q the "
               "nearest integer of x / scale (half to even), 0 for NaN and "
               "where scale is 0.",
        RUN("f32", quantize_blocks)})
