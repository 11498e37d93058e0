// SPDX-License-Identifier: Apache-2.0
// log(sum(exp(x))) of each row, by its largest element: finite wherever the row
// is.

#include "../../modules/operators.h"

enum { N, D };

static og_status log_sum_exp(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *row = x + r * width;
    float largest = row[0], sum = 0;
    for (int64_t i = 1; i < width; ++i) largest = fmaxf(largest, row[i]);
    for (int64_t i = 0; i < width; ++i) sum += expf(row[i] - largest);
    y[r] = largest + logf(sum);
  }
  return OG_OK;
}

MODULE(log_sum_exp, {.schema = "log_sum_exp(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N]",
                     .where = "D > 0",
                     RUN("f32", log_sum_exp)})
