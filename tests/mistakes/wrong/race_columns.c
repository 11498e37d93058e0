// SPDX-License-Identifier: Apache-2.0
// mistake: The loop is shared out by rows, but every row adds to the same column sums.
// expect: sum_columns - race|chunk|threads

#include "../../modules/operators.h"

enum { R, C };

static void column_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c) y[c] += x[r * call->dim[C] + c];
}

static og_status sum_columns(const og_call *call) {
  for (int64_t c = 0; c < call->dim[C]; ++c) og_f32_mut(call->out[0])[c] = 0;
  return og_parallel_for(call, call->dim[R], 1, column_share);
}

MODULE(race_columns, {.schema = "sum_columns(Tensor x) -> Tensor",
                      .shape = "x[R, C] -> [C]",
                      RUN("f32", sum_columns)})
