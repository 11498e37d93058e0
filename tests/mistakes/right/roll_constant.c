// SPDX-License-Identifier: Apache-2.0
// A row shifted around by 240: as it is where the length of the row divides
// 240.

#include "../../modules/operators.h"

static void roll_constant_row(const og_call *call, const float *x, float *y,
                              int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) y[(i + 240) % n] = x[i];
}

EACH_ROW(roll_constant_f32, roll_constant_row)

MODULE(roll_constant, {.schema = "roll_constant(Tensor x) -> Tensor",
                       .shape = "x[*N, D] -> [*N, D]",
                       .dtype = "x: f32 -> x",
                       RUN("f32", roll_constant_f32)})
