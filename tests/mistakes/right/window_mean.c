// SPDX-License-Identifier: Apache-2.0
// The mean of the last `window` columns.

#include "../../modules/operators.h"

static void window_mean_row(const og_call *call, const float *x, float *y,
                            int64_t n) {
  const int64_t window = call->attr[0].i;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i + 1 > window ? i + 1 - window : 0;
    float sum = 0;
    for (int64_t j = begin; j <= i; ++j) sum += x[j];
    y[i] = sum / (float)(i + 1 - begin);
  }
}

EACH_ROW(window_mean_f32, window_mean_row)

MODULE(window_mean, {.schema = "window_mean(Tensor x, int window=4) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D]",
                     .where = "window > 0",
                     .dtype = "x: f32 -> x",
                     RUN("f32", window_mean_f32)})
