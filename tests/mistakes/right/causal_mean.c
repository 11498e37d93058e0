// SPDX-License-Identifier: Apache-2.0
// The mean of a row up to each column.

#include "../../modules/operators.h"

static void causal_mean_row(const og_call *call, const float *x, float *y,
                            int64_t n) {
  float sum = 0;
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i];
    y[i] = sum / (float)(i + 1);
  }
}

EACH_ROW(causal_mean_f32, causal_mean_row)

MODULE(causal_mean, {.schema = "causal_mean(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D]",
                     .dtype = "x: f32 -> x",
                     RUN("f32", causal_mean_f32)})
