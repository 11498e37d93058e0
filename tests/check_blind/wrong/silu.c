// SPDX-License-Identifier: Apache-2.0
// silu: x * sigmoid(x), with its gradient.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rules

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static og_status silu(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = x[i] * sigmoid(x[i]);
  return OG_OK;
}

static og_status silu_backward(const og_call *call) {
  const double *grad = og_f64(call->in[0]), *x = og_f64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double s = sigmoid(x[i]);
    og_f64_mut(call->out[0])[i] = grad[i] * s * (1 - x[i] * (1 - s));
  }
  return OG_OK;
}

MODULE(silu,
       {.schema = "silu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "silu_backward(grad, x) -> x",
        .doc = "x times its logistic function.",
        RUN("f64", silu)},
       {.schema = "silu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .doc = "The gradient of silu.",
        RUN("f64", silu_backward)})
