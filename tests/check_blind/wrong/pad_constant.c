// SPDX-License-Identifier: Apache-2.0
// pad_constant: the last axis with a constant before and behind.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t *pad = call->attr[0].ints;
  const int64_t width = call->dim[D], wide = width + pad[0] + pad[1];
  const float value = (float)call->attr[1].f;
  for (int64_t r = begin; r < end; ++r) {
    float *y = og_f32_mut(call->out[0]) + r * wide;
    memset(y, 0, (size_t)wide * sizeof *y);
    for (int64_t i = 0; i < pad[0]; ++i) y[i] = value;
    for (int64_t i = 0; i < width; ++i)
      y[pad[0] + i] = og_f32(call->in[0])[r * width + i];
  }
}

static og_status pad_constant(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(pad_constant,
       {.schema = "pad_constant(Tensor x, int[2] pad, float value=0.0) -> "
                  "Tensor",
        .shape = "x[*N, D] -> [*N, pad[0] + D + pad[1]]",
        .where = "len(pad) == 2, pad[0] >= 0, pad[1] >= 0",
        .doc = "pad[0] times the value, the row, pad[1] times the value.",
        RUN("f32", pad_constant)})
