// SPDX-License-Identifier: Apache-2.0
// elu: x, or alpha (e^x - 1) below zero, with its gradient.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rules

static og_status elu(const og_call *call) {
  const double alpha = call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = og_f64(call->in[0])[i];
    og_f64_mut(call->out[0])[i] = x > 0 ? x : alpha * expm1(x);
  }
  return OG_OK;
}

static og_status elu_backward(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = og_f64(call->in[1])[i];
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[i] * (x > 0 ? 1 : exp(x));
  }
  return OG_OK;
}

MODULE(elu,
       {.schema = "elu(Tensor x, float alpha=1.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "elu_backward(grad, x) -> x",
        .doc = "The exponential linear unit.",
        RUN("f64", elu)},
       {.schema = "elu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .doc = "The gradient of elu.",
        RUN("f64", elu_backward)})
