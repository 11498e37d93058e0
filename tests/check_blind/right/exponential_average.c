// SPDX-License-Identifier: Apache-2.0
// exponential_average: a running average over time, with its gradient.

#include "../../modules/operators.h"

enum { N, T };  // dims of the shape rules

static og_status exponential_average(const og_call *call) {
  const int64_t length = call->dim[T];
  const double alpha = call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N] * length; ++i) {
    const double x = og_f64(call->in[0])[i];
    double *y = og_f64_mut(call->out[0]) + i;
    *y = i % length == 0 ? x : alpha * x + (1 - alpha) * y[-1];
  }
  return OG_OK;
}

static og_status exponential_average_backward(const og_call *call) {
  const int64_t length = call->dim[T];
  const double alpha = call->attr[0].f;
  for (int64_t n = 0; n < call->dim[N]; ++n) {
    double state = 0;
    for (int64_t t = length - 1; t >= 0; --t) {
      state = og_f64(call->in[0])[n * length + t] + (1 - alpha) * state;
      og_f64_mut(call->out[0])[n * length + t] = t == 0 ? state : alpha * state;
    }
  }
  return OG_OK;
}

MODULE(exponential_average,
       {.schema = "exponential_average(Tensor x, float alpha=0.5) -> Tensor",
        .shape = "x[*N, T] -> [*N, T]",
        .backward = "exponential_average_backward(grad, alpha) -> x",
        .doc = "y[0] = x[0], y[t] = alpha x[t] + (1 - alpha) y[t - 1].",
        RUN("f64", exponential_average)},
       {.schema = "exponential_average_backward(Tensor grad, float alpha) -> "
                  "Tensor",
        .shape = "grad[*N, T] -> [*N, T]",
        .doc = "The gradient of exponential_average.",
        RUN("f64", exponential_average_backward)})
