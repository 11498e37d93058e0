// SPDX-License-Identifier: Apache-2.0
// alibi_bias: attention scores less a slope times the distance.

#include "../../modules/operators.h"

enum { H, S, T };  // dims of the shape rule

static void heads(const og_call *call, int64_t begin, int64_t end) {
  const int64_t queries = call->dim[S], keys = call->dim[T];
  for (int64_t h = begin; h < end; ++h) {
    const double slope = exp2(-8 * (double)(h + 1) / (double)call->dim[H]);
    for (int64_t i = 0; i < queries * keys; ++i) {
      const int64_t place = i / keys + keys - queries;
      const int64_t far = place - i % keys;
      const int64_t at = h * queries * keys + i;
      og_f64_mut(call->out[0])[at] =
          og_f64(call->in[0])[at] - slope * (double)(far < 0 ? -far : far);
    }
  }
}

static og_status alibi_bias(const og_call *call) {
  return og_parallel_for(call, call->dim[H], 1, heads);
}

MODULE(alibi_bias,
       {.schema = "alibi_bias(Tensor score) -> Tensor",
        .shape = "score[H, S, T] -> [H, S, T]",
        .where = "T >= S",
        .inplace = "score",
        .doc = "Query i stands at key i + T - S; the slope of head h is 2^(-8 "
               "(h + 1) / H).",
        RUN("f64", alibi_bias)})
