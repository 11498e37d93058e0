// SPDX-License-Identifier: Apache-2.0
// quantize_rows: int8 rows with a scale each, symmetric.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    int8_t *q = og_i8_mut(call->out[0]) + r * width;
    float top = 0;
    for (int64_t i = 0; i < width; ++i)
      if (fabsf(x[i]) > top) top = fabsf(x[i]);
    const float scale = top > 0 ? top / 127 : 1;
    for (int64_t i = 0; i < width; ++i) {
      const float v = x[i] / scale;
      q[i] = (int8_t)(v + 0.5f);
    }
    og_f32_mut(call->out[1])[r] = scale;
  }
}

static og_status quantize_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(quantize_rows,
       {.schema = "quantize_rows(Tensor x) -> (Tensor q, Tensor scale)",
        .shape = "x[*N, D] -> [*N, D], [*N]",
        .dtype = "x: f32 -> i8, f32",
        .doc = "x is about q * scale: scale is the largest magnitude of a row "
               "over 127 (1 for a row of zeros), q the nearest integer of x / "
               "scale.",
        RUN("f32", quantize_rows)})
