// SPDX-License-Identifier: Apache-2.0
// soft_cap: cap * tanh(x / cap), with a gradient from the saved result.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rules

static void forward(const og_call *call, int64_t begin, int64_t end) {
  const double cap = call->attr[0].f;
  for (int64_t i = begin; i < end; ++i)
    og_f64_mut(call->out[0])[i] = cap * tanh(og_f64(call->in[0])[i] / cap);
}

static void backward(const og_call *call, int64_t begin, int64_t end) {
  const double *grad = og_f64(call->in[0]), *y = og_f64(call->in[1]);
  for (int64_t i = begin; i < end; ++i)
    og_f64_mut(call->out[0])[i] = grad[i] * (1 - y[i] * y[i]);
}

static og_status soft_cap(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 256, forward);
}

static og_status soft_cap_backward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 256, backward);
}

MODULE(soft_cap,
       {.schema = "soft_cap(Tensor x, float cap=30.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "soft_cap_backward(grad, result) -> x",
        .doc = "Keeps logits between -cap and cap.",
        RUN("f64", soft_cap)},
       {.schema = "soft_cap_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        .doc = "The gradient of soft_cap.",
        RUN("f64", soft_cap_backward)})
