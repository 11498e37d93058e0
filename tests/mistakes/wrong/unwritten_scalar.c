// SPDX-License-Identifier: Apache-2.0
// mistake: A tensor without dims is taken for an empty one.
// expect: sigmoid - unwritten

#include "../../modules/operators.h"

static og_status sigmoid(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = call->in[0]->ndim > 0 ? 1 : 0;
  for (int32_t i = 0; i < call->in[0]->ndim; ++i)
    count *= call->in[0]->shape[i];
  for (int64_t i = 0; i < count; ++i) y[i] = 1 / (1 + expf(-x[i]));
  return OG_OK;
}

MODULE(unwritten_scalar, {.schema = "sigmoid(Tensor x) -> Tensor",
                          .shape = "x[*N] -> [*N]",
                          RUN("f32", sigmoid)})
