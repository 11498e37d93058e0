// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of leaky_relu is right for positive x; for negative x the slope is squared.
// expect: leaky_relu|leaky_relu_backward x gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float slope = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] > 0 ? x[i] : slope * x[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const float slope = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    dx[i] = grad[i] * (x[i] > 0 ? 1 : slope * slope);
  return OG_OK;
}

MODULE(grad_negative_side,
       {.schema = "leaky_relu(Tensor x, float slope=0.1) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "leaky_relu_backward(grad, x, slope) -> x",
        RUN("f32", forward)},
       {.schema =
            "leaky_relu_backward(Tensor grad, Tensor x, float slope) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", backward)})
