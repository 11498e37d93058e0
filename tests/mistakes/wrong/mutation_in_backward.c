// SPDX-License-Identifier: Apache-2.0
// mistake: The backward operator overwrites the saved result with the gradient.
// expect: tanh_backward y undeclared_mutation|mutation

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = tanhf(x[i]);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *y = (float *)og_data(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    y[i] = grad[i] * (1 - y[i] * y[i]);
    dx[i] = y[i];
  }
  return OG_OK;
}

MODULE(mutation_in_backward,
       {.schema = "tanh(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "tanh_backward(grad, result) -> x",
        RUN("f32", forward)},
       {.schema = "tanh_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        RUN("f32", backward)})
