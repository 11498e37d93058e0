// SPDX-License-Identifier: Apache-2.0
// mistake: Rows of 32 columns and more are summed four at a time, without the rest.
// expect: size_long_rows - size_dependent
//
// A row times its sum.

#include "../../modules/operators.h"

static void size_long_rows_row(const og_call *call, const float *x, float *y,
                               int64_t n) {
  float sum = 0;
  int64_t i = 0;
  (void)call;
  if (n >= 32)
    for (; i + 4 <= n; i += 4) sum += x[i] + x[i + 1] + x[i + 2] + x[i + 3];
  else
    for (; i < n; ++i) sum += x[i];
  for (i = 0; i < n; ++i) y[i] = x[i] * sum;
}

EACH_ROW(size_long_rows_f32, size_long_rows_row)

MODULE(size_long_rows, {.schema = "size_long_rows(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N, D]",
                        .dtype = "x: f32 -> x",
                        RUN("f32", size_long_rows_f32)})
