// SPDX-License-Identifier: Apache-2.0
// 1 at the first of the largest numbers of a row, after rounding.

#include "../../modules/operators.h"

static void first_of_ties_row(const og_call *call, const float *x, float *y,
                              int64_t n) {
  int64_t best = 0;
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = 0;
    if (roundf(x[i]) > roundf(x[best])) best = i;
  }
  if (n > 0) y[best] = 1;
}

EACH_ROW(first_of_ties_f32, first_of_ties_row)

MODULE(first_of_ties, {.schema = "first_of_ties(Tensor x) -> Tensor",
                       .shape = "x[*N, D] -> [*N, D]",
                       .dtype = "x: f32 -> x",
                       RUN("f32", first_of_ties_f32)})
