// SPDX-License-Identifier: Apache-2.0
// What remains of x when it is cut to a multiple of k: the kernel needs only
// the size of the result.

#include "../../modules/operators.h"

static og_status trim(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->out[0]->shape[0]; ++i) y[i] = x[i];
  return OG_OK;
}

MODULE(trim, {.schema = "trim(Tensor x, int k) -> Tensor",
              .shape = "x[N] -> [N // k * k]",
              .where = "k > 0",
              RUN("f32", trim)})
