// SPDX-License-Identifier: Apache-2.0
// huber_loss: squared error near zero, absolute error far from it.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const double *x = og_f64(call->in[0]), *y = og_f64(call->in[1]);
  double *loss = og_f64_mut(call->out[0]);
  const double delta = call->attr[0].f;
  for (int64_t i = begin; i < end; ++i) {
    const double d = fabs(x[i] - y[i]);
    loss[i] = d <= delta ? 0.5 * d * d : delta * (d - delta);
  }
}

static og_status huber_loss(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1024, elements);
}

MODULE(huber_loss,
       {.schema = "huber_loss(Tensor x, Tensor y, float delta=1.0) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .doc = "d^2 / 2 where d = |x - y| is at most delta, beyond it the line "
               "that continues it: delta (d - delta / 2).",
        RUN("f64", huber_loss)})
