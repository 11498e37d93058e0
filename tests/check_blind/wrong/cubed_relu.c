// SPDX-License-Identifier: Apache-2.0
// cubed_relu: max(x, 0)^3, differentiable twice.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rules

static double positive(double x) { return x > 0 ? x : 0; }

static og_status cubed_relu(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = positive(og_f64(call->in[0])[i]);
    og_f64_mut(call->out[0])[i] = x * x * x;
  }
  return OG_OK;
}

static og_status cubed_relu_backward(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = positive(og_f64(call->in[1])[i]);
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[i] * 3 * x * x;
  }
  return OG_OK;
}

static og_status cubed_relu_double_backward(const og_call *call) {
  const double *grad_2 = og_f64(call->in[0]), *grad = og_f64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = positive(og_f64(call->in[2])[i]);
    og_f64_mut(call->out[0])[i] = grad_2[i] * 3 * x * x;
    og_f64_mut(call->out[1])[i] = grad_2[i] * grad[i] * 3 * x;
  }
  return OG_OK;
}

MODULE(cubed_relu,
       {.schema = "cubed_relu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "cubed_relu_backward(grad, x) -> x",
        .doc = "The cube of the rectifier.",
        RUN("f64", cubed_relu)},
       {.schema = "cubed_relu_backward(Tensor grad_y, Tensor x) -> Tensor",
        .shape = "grad_y[*N], x[*N] -> [*N]",
        .backward = "cubed_relu_double_backward(grad, grad_y, x) -> grad_y, x",
        .doc = "The gradient of cubed_relu.",
        RUN("f64", cubed_relu_backward)},
       {.schema = "cubed_relu_double_backward(Tensor grad, Tensor grad_y, "
                  "Tensor x) -> (Tensor, Tensor)",
        .shape = "grad[*N], grad_y[*N], x[*N] -> [*N], [*N]",
        .doc = "The gradients of cubed_relu_backward.",
        RUN("f64", cubed_relu_double_backward)})
