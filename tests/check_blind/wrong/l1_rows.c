// SPDX-License-Identifier: Apache-2.0
// l1_rows: divides each row by the sum of its magnitudes.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += fabsf(x[i]);
    for (int64_t i = 0; i < width; ++i) y[i] = sum > 0 ? x[i] / sum : 0;
  }
}

static og_status l1_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(l1_rows, {.schema = "l1_rows(Tensor x) -> Tensor",
                 .shape = "x[N, D] -> [N, D]",
                 .strides = "last",
                 .doc = "Rows whose magnitudes sum to 1; a row of zeros stays.",
                 RUN("f32", l1_rows)})
