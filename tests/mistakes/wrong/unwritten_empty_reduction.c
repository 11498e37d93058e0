// SPDX-License-Identifier: Apache-2.0
// mistake: Rows of no columns return early, and their sums, which exist, are not written.
// expect: sum_rows - unwritten

#include "../../modules/operators.h"

enum { N, D };

static og_status sum_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  if (og_numel(call->in[0]) == 0) return OG_OK;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    y[r] = sum;
  }
  return OG_OK;
}

MODULE(unwritten_empty_reduction, {.schema = "sum_rows(Tensor x) -> Tensor",
                                   .shape = "x[*N, D] -> [*N]",
                                   RUN("f32", sum_rows)})
