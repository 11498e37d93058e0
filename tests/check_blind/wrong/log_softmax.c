// SPDX-License-Identifier: Apache-2.0
// log_softmax: x - log(sum(exp(x))) of each row, gradient from its result.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rules

static og_status log_softmax(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double top = x[0], sum = 0;
    for (int64_t i = 1; i < width; ++i) top = fmax(top, x[i]);
    for (int64_t i = 0; i < width; ++i) sum += exp(x[i] - top);
    for (int64_t i = 0; i < width; ++i)
      og_f64_mut(call->out[0])[r * width + i] = x[i] - top - log(sum);
  }
  return OG_OK;
}

static og_status log_softmax_backward(const og_call *call) {
  const double *grad = og_f64(call->in[0]), *y = og_f64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i)
    og_f64_mut(call->out[0])[i] = grad[i] - exp(y[i]) * grad[i];
  return OG_OK;
}

MODULE(log_softmax,
       {.schema = "log_softmax(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .backward = "log_softmax_backward(grad, result) -> x",
        .doc = "The logarithm of the softmax of the last axis.",
        RUN("f64", log_softmax)},
       {.schema = "log_softmax_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N, D], y[*N, D] -> [*N, D]",
        .where = "D > 0",
        .doc = "The gradient of log_softmax.",
        RUN("f64", log_softmax_backward)})
