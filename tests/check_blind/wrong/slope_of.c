// SPDX-License-Identifier: Apache-2.0
// slope_of: central differences along the last axis, one-sided at the ends.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    if (width == 0) continue;
    y[0] = x[1] - x[0];
    for (int64_t i = 1; i + 1 < width; ++i) y[i] = (x[i + 1] - x[i - 1]) / 2;
    if (width > 1) y[width - 1] = x[width - 1] - x[width - 2];
    if (width == 1) y[0] = 0;
  }
}

static og_status slope_of(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(slope_of,
       {.schema = "slope_of(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .doc = "The slope of each row; a row of one element has slope 0.",
        RUN("f32", slope_of)})
