// SPDX-License-Identifier: Apache-2.0
// causal_softmax: softmax over the keys that a query may see, with gradient.

#include "../../modules/operators.h"

enum { N, S, T };  // dims of the shape rules

static og_status causal_softmax(const og_call *call) {
  const int64_t queries = call->dim[S], keys = call->dim[T];
  for (int64_t r = 0; r < call->dim[N] * queries; ++r) {
    const int64_t seen = r % queries + keys - queries + 1;
    const double *x = og_f64(call->in[0]) + r * keys;
    double *y = og_f64_mut(call->out[0]) + r * keys;
    double top = x[0], sum = 0;
    for (int64_t i = 1; i < seen; ++i) top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < seen; ++i) sum += y[i] = exp(x[i] - top);
    for (int64_t i = 0; i < keys; ++i) y[i] = i < seen ? y[i] / sum : 0;
  }
  return OG_OK;
}

static og_status causal_softmax_backward(const og_call *call) {
  const int64_t keys = call->dim[T];
  for (int64_t r = 0; r < call->dim[N] * call->dim[S]; ++r) {
    const double *grad = og_f64(call->in[0]) + r * keys;
    const double *y = og_f64(call->in[1]) + r * keys;
    double along = 0;
    for (int64_t i = 0; i < keys; ++i) along += grad[i] * y[i];
    for (int64_t i = 0; i < keys; ++i)
      og_f64_mut(call->out[0])[r * keys + i] = y[i] * (grad[i] - along);
  }
  return OG_OK;
}

MODULE(causal_softmax,
       {.schema = "causal_softmax(Tensor x) -> Tensor",
        .shape = "x[*N, S, T] -> [*N, S, T]",
        .where = "T >= S",
        .backward = "causal_softmax_backward(grad, result) -> x",
        .doc = "Query i sees keys 0 to i + T - S; other entries are 0.",
        RUN("f64", causal_softmax)},
       {.schema = "causal_softmax_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N, S, T], y[*N, S, T] -> [*N, S, T]",
        .where = "T >= S",
        .doc = "The gradient of causal_softmax.",
        RUN("f64", causal_softmax_backward)})
