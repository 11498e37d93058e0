// SPDX-License-Identifier: Apache-2.0
// mistake: The positions are computed and never stored.
// expect: max_rows - unwritten

#include "../../modules/operators.h"

enum { N, D };

static og_status max_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; ++i)
      if (x[r * width + i] > x[r * width + best]) best = i;
    y[r] = x[r * width + best];
  }
  return OG_OK;
}

MODULE(unwritten_second_result,
       {.schema = "max_rows(Tensor x) -> (Tensor values, Tensor indices)",
        .shape = "x[*N, D] -> [*N], [*N]",
        .where = "D > 0",
        .dtype = "x: f32 -> x, i64",
        RUN(NULL, max_rows)})
