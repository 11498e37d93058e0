// SPDX-License-Identifier: Apache-2.0
// discounted_sum: y[t] = x[t] + decay * y[t - 1], with its gradient.

#include "../../modules/operators.h"

enum { N, T };  // dims of the shape rules

static void line_run(const double *x, double *y, int64_t length, double decay) {
  double state = 0;
  for (int64_t t = 0; t < length; ++t) y[t] = state = x[t] + decay * state;
}

static og_status discounted_sum(const og_call *call) {
  const int64_t length = call->dim[T];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    line_run(og_f64(call->in[0]) + n * length,
             og_f64_mut(call->out[0]) + n * length, length, call->attr[0].f);
  return OG_OK;
}

static og_status discounted_sum_backward(const og_call *call) {
  return discounted_sum(call);
}

MODULE(discounted_sum,
       {.schema = "discounted_sum(Tensor x, float decay=0.9) -> Tensor",
        .shape = "x[*N, T] -> [*N, T]",
        .backward = "discounted_sum_backward(grad, decay) -> x",
        .doc = "A sum over time that forgets.",
        RUN("f64", discounted_sum)},
       {.schema = "discounted_sum_backward(Tensor grad, float decay) -> Tensor",
        .shape = "grad[*N, T] -> [*N, T]",
        .doc = "The gradient of discounted_sum.",
        RUN("f64", discounted_sum_backward)})
