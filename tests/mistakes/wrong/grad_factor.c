// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of x * x is given as grad * x, without the factor 2.
// expect: square|square_backward x gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * x[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = grad[i] * x[i];
  return OG_OK;
}

MODULE(grad_factor,
       {.schema = "square(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "square_backward(grad, x) -> x",
        RUN("f32", forward)},
       {.schema = "square_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", backward)})
