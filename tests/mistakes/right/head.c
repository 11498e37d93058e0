// SPDX-License-Identifier: Apache-2.0
// The first k elements, or all: the kernel needs only the sizes, though many k
// have the same.

#include "../../modules/operators.h"

static og_status head(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->out[0]->shape[0]; ++i) y[i] = x[i];
  return OG_OK;
}

MODULE(head, {.schema = "head(Tensor x, int k) -> Tensor",
              .shape = "x[N] -> [min(k, N)]",
              .where = "k >= 0",
              RUN("f32", head)})
