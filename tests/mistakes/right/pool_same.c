// SPDX-License-Identifier: Apache-2.0
// The mean of a window of three, which ends at the borders.

#include "../../modules/operators.h"

static void pool_same_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i > 0 ? i - 1 : 0, end = i + 2 < n ? i + 2 : n;
    float sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += x[j];
    y[i] = sum / (float)(end - begin);
  }
}

EACH_ROW(pool_same_f32, pool_same_row)

MODULE(pool_same, {.schema = "pool_same(Tensor x) -> Tensor",
                   .shape = "x[*N, D] -> [*N, D]",
                   .dtype = "x: f32 -> x",
                   RUN("f32", pool_same_f32)})
