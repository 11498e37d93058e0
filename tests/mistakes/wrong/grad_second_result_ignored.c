// SPDX-License-Identifier: Apache-2.0
// mistake: Of two differentiable results the backward map uses the gradient of the first only.
// expect: sin_and_square|sin_and_square_backward x gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[0])[i] = sinf(x[i]);
    og_f32_mut(call->out[1])[i] = x[i] * x[i];
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = grad[i] * cosf(x[i]);
  return OG_OK;
}

MODULE(grad_second_result_ignored,
       {.schema = "sin_and_square(Tensor x) -> (Tensor, Tensor)",
        .shape = "x[*N] -> [*N], [*N]",
        .backward = "sin_and_square_backward(grad_0, x) -> x",
        RUN("f32", forward)},
       {.schema = "sin_and_square_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", backward)})
