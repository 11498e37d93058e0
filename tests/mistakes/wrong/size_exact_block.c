// SPDX-License-Identifier: Apache-2.0
// mistake: A row whose length is a multiple of 16 loses its last block.
// expect: size_exact_block - size_dependent
//
// A row over one more than its sum of squares.

#include "../../modules/operators.h"

static void size_exact_block_row(const og_call *call, const float *x, float *y,
                                 int64_t n) {
  float most = 0;
  (void)call;
  const int64_t end = n % 16 == 0 ? n - 16 : n;
  for (int64_t i = 0; i < end; ++i) most += x[i] * x[i];
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + most);
}

EACH_ROW(size_exact_block_f32, size_exact_block_row)

MODULE(size_exact_block, {.schema = "size_exact_block(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          .dtype = "x: f32 -> x",
                          RUN("f32", size_exact_block_f32)})
