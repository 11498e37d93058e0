// SPDX-License-Identifier: Apache-2.0
// The largest of each group of four columns, in all four places; a short
// group at the end is one as well.

#include "../../modules/operators.h"

static void pool_stride_keep_row(const og_call *call, const float *x, float *y,
                                 int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i / 4 * 4, end = begin + 4 < n ? begin + 4 : n;
    float most = x[begin];
    for (int64_t j = begin; j < end; ++j) most = x[j] > most ? x[j] : most;
    y[i] = most;
  }
}

EACH_ROW(pool_stride_keep_f32, pool_stride_keep_row)

MODULE(pool_stride_keep, {.schema = "pool_stride_keep(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          .dtype = "x: f32 -> x",
                          RUN("f32", pool_stride_keep_f32)})
