// SPDX-License-Identifier: Apache-2.0
// Columns 2 i and 2 i + 1 turned by an angle of i; an odd last one stays.

#include "../../modules/operators.h"

static void rope_pairs_row(const og_call *call, const float *x, float *y,
                           int64_t n) {
  (void)call;
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const float c = cosf(0.1f * (float)i + 0.3f),
                s = sinf(0.1f * (float)i + 0.3f);
    y[i] = x[i] * c - x[i + 1] * s;
    y[i + 1] = x[i] * s + x[i + 1] * c;
  }
  if (n % 2 == 1) y[n - 1] = x[n - 1];
}

EACH_ROW(rope_pairs_f32, rope_pairs_row)

MODULE(rope_pairs, {.schema = "rope_pairs(Tensor x) -> Tensor",
                    .shape = "x[*N, D] -> [*N, D]",
                    .dtype = "x: f32 -> x",
                    RUN("f32", rope_pairs_f32)})
