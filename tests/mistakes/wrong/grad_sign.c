// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of the subtrahend lacks its minus sign.
// expect: subtract|subtract_backward y gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) z[i] = x[i] - y[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  float *dy = og_f32_mut(call->out[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = dy[i] = grad[i];
  return OG_OK;
}

MODULE(grad_sign,
       {.schema = "subtract(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .backward = "subtract_backward(grad) -> x, y",
        RUN("f32", forward)},
       {.schema = "subtract_backward(Tensor grad) -> (Tensor dx, Tensor dy)",
        .shape = "grad[*N] -> [*N], [*N]",
        RUN("f32", backward)})
