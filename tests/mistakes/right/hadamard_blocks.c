// SPDX-License-Identifier: Apache-2.0
// Sums and differences of the columns of each whole block of 16; the rest
// stays.

#include "../../modules/operators.h"

static void hadamard_blocks_row(const og_call *call, const float *x, float *y,
                                int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  for (int64_t b = 0; b + 16 <= n; b += 16)
    for (int64_t half = 1; half < 16; half *= 2)
      for (int64_t i = 0; i < 16; ++i) {
        if (i & half) continue;
        const float p = y[b + i], q = y[b + i + half];
        y[b + i] = p + q;
        y[b + i + half] = p - q;
      }
}

EACH_ROW(hadamard_blocks_f32, hadamard_blocks_row)

MODULE(hadamard_blocks, {.schema = "hadamard_blocks(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N, D]",
                         .dtype = "x: f32 -> x",
                         RUN("f32", hadamard_blocks_f32)})
