// SPDX-License-Identifier: Apache-2.0
// A row shifted around by an int argument.

#include "../../modules/operators.h"

static void roll_by_row(const og_call *call, const float *x, float *y,
                        int64_t n) {
  const int64_t by = n > 0 ? (call->attr[0].i % n + n) % n : 0;
  for (int64_t i = 0; i < n; ++i) y[(i + by) % n] = x[i];
}

EACH_ROW(roll_by_f32, roll_by_row)

MODULE(roll_by, {.schema = "roll_by(Tensor x, int by=12) -> Tensor",
                 .shape = "x[*N, D] -> [*N, D]",
                 .dtype = "x: f32 -> x",
                 RUN("f32", roll_by_f32)})
