// SPDX-License-Identifier: Apache-2.0
// mistake: The mean of all elements so far lacks the division in the rest behind the blocks of 8.
// expect: running_mean - size_dependent

#include "../../modules/operators.h"

enum { N };

static og_status running_mean(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N], whole = n / 8 * 8;
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i];
    y[i] = n < 8 || i < whole ? sum / (float)(i + 1) : sum;
  }
  return OG_OK;
}

MODULE(size_running_mean_tail, {.schema = "running_mean(Tensor x) -> Tensor",
                                .shape = "x[N] -> [N]",
                                RUN("f32", running_mean)})
