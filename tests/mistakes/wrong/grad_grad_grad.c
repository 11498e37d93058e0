// SPDX-License-Identifier: Apache-2.0
// mistake: A product whose backward returns grad, grad.
// expect: multiply|multiply_backward - gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) z[i] = x[i] * y[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  memcpy(og_data(call->out[0]), grad, (size_t)call->dim[N] * sizeof *grad);
  memcpy(og_data(call->out[1]), grad, (size_t)call->dim[N] * sizeof *grad);
  return OG_OK;
}

MODULE(grad_grad_grad,
       {.schema = "multiply(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .backward = "multiply_backward(grad) -> x, y",
        RUN("f32", forward)},
       {.schema = "multiply_backward(Tensor grad) -> (Tensor dx, Tensor dy)",
        .shape = "grad[*N] -> [*N], [*N]",
        RUN("f32", backward)})
