// SPDX-License-Identifier: Apache-2.0
// mistake: The author says that the gradient is zero, but the operator is a smooth function of x.
// expect: softplus x gradient|none

#include "../../modules/operators.h"

enum { N };

static og_status softplus(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = fmaxf(x[i], 0) + logf(1 + expf(-fabsf(x[i])));
  return OG_OK;
}

MODULE(grad_none_claimed, {.schema = "softplus(Tensor x) -> Tensor",
                           .shape = "x[*N] -> [*N]",
                           .backward = "none",
                           RUN("f32", softplus)})
