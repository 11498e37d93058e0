// SPDX-License-Identifier: Apache-2.0
// mistake: A bilinear layer whose backward returns grad for both factors and nothing for the bias: the habit of grad, grad, None.
// expect: gate|gate_backward - gradient|missing_gradient

#include "../../modules/operators.h"

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  const float *bias = og_f32(call->in[2]);
  float *z = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    z[i] = x[i] * y[i] + bias[i % width];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i) {
    og_f32_mut(call->out[0])[i] = grad[i];
    og_f32_mut(call->out[1])[i] = grad[i];
  }
  return OG_OK;
}

MODULE(grad_grad_none,
       {.schema = "gate(Tensor x, Tensor y, Tensor bias) -> Tensor",
        .shape = "x[*N, D], y[*N, D], bias[D] -> [*N, D]",
        .backward = "gate_backward(grad) -> x, y",
        RUN("f32", forward)},
       {.schema = "gate_backward(Tensor grad) -> (Tensor dx, Tensor dy)",
        .shape = "grad[*N, D] -> [*N, D], [*N, D]",
        RUN("f32", backward)})
