// SPDX-License-Identifier: Apache-2.0
// mistake: The last, partial block of four is not sorted in.
// expect: size_sorted_blocks - size_dependent
//
// A row in rising order.

#include "../../modules/operators.h"

static void size_sorted_blocks_row(const og_call *call, const float *x,
                                   float *y, int64_t n) {
  (void)call;
  const int64_t whole = n / 4 * 4;
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    int64_t j = i;
    for (; i < whole && j > 0 && y[j - 1] > v; --j) y[j] = y[j - 1];
    y[j] = v;
  }
}

EACH_ROW(size_sorted_blocks_f32, size_sorted_blocks_row)

MODULE(size_sorted_blocks, {.schema = "size_sorted_blocks(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N, D]",
                            .dtype = "x: f32 -> x",
                            RUN("f32", size_sorted_blocks_f32)})
