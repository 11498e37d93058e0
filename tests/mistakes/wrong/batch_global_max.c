// SPDX-License-Identifier: Apache-2.0
// mistake: The pack says that rows are independent, but all are divided by the greatest value of all rows.
// expect: scale_rows_to_max - batch

#include "../../modules/operators.h"

enum { N, D };

static og_status scale_rows_to_max(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N] * call->dim[D];
  float best = 1e-6f;
  for (int64_t i = 0; i < count; ++i) best = fmaxf(best, fabsf(x[i]));
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] / best;
  return OG_OK;
}

MODULE(batch_global_max, {.schema = "scale_rows_to_max(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          RUN("f32", scale_rows_to_max)})
