// SPDX-License-Identifier: Apache-2.0
// mistake: The mean loses the columns behind the last whole block of eight.
// expect: size_tail_mean - size_dependent
//
// A row less its mean.

#include "../../modules/operators.h"

static void size_tail_mean_row(const og_call *call, const float *x, float *y,
                               int64_t n) {
  float sum = 0;
  (void)call;
  for (int64_t b = 0; b + 8 <= n; b += 8)
    for (int64_t i = 0; i < 8; ++i) sum += x[b + i];
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - sum / (float)n;
}

EACH_ROW(size_tail_mean_f32, size_tail_mean_row)

MODULE(size_tail_mean, {.schema = "size_tail_mean(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N, D]",
                        .dtype = "x: f32 -> x",
                        RUN("f32", size_tail_mean_f32)})
