// SPDX-License-Identifier: Apache-2.0
// A row in rising order, after rounding: many of its numbers are equal.

#include "../../modules/operators.h"

static void sort_ties_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const float v = roundf(x[i]);
    int64_t j = i;
    for (; j > 0 && y[j - 1] > v; --j) y[j] = y[j - 1];
    y[j] = v;
  }
}

EACH_ROW(sort_ties_f32, sort_ties_row)

MODULE(sort_ties, {.schema = "sort_ties(Tensor x) -> Tensor",
                   .shape = "x[*N, D] -> [*N, D]",
                   .dtype = "x: f32 -> x",
                   RUN("f32", sort_ties_f32)})
