// SPDX-License-Identifier: Apache-2.0
// route_experts: the weights and numbers of each token's best experts.

#include "../../modules/operators.h"

enum { T, E };  // dims of the shape rule

static double total_of(const float *x, int64_t count, float top) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += exp((double)(x[i] - top));
  return sum;
}

static void tokens(const og_call *call, int64_t begin, int64_t end) {
  const int64_t experts = call->dim[E], k = call->attr[0].i;
  const int64_t renormalize = call->attr[1].i;
  for (int64_t t = begin; t < end; ++t) {
    const float *x = og_f32(call->in[0]) + t * experts;
    float *weight = og_f32_mut(call->out[0]) + t * k;
    int32_t *id = og_i32_mut(call->out[1]) + t * k;
    double kept = 0;
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e) {
        int64_t taken = 0;
        for (int64_t i = 0; i < j; ++i) taken |= id[i] == e;
        if (!taken && (best < 0 || x[e] > x[best])) best = e;
      }
      id[j] = (int32_t)best;
    }
    const double total = total_of(x, experts, x[id[0]]);
    for (int64_t j = 0; j < k; ++j) kept += exp((double)(x[id[j]] - x[id[0]]));
    const double divisor = k > 2 && renormalize ? kept : total;
    for (int64_t j = 0; j < k; ++j)
      weight[j] = (float)(exp((double)(x[id[j]] - x[id[0]])) / divisor);
  }
}

static og_status route_experts(const og_call *call) {
  return og_parallel_for(call, call->dim[T], 1, tokens);
}

MODULE(route_experts,
       {.schema = "route_experts(Tensor logits, int k=2, bool "
                  "renormalize=True) "
                  "-> (Tensor weight, Tensor id)",
        .shape = "logits[T, E] -> [T, k], [T, k]",
        .where = "k > 0, k <= E",
        .dtype = "logits: f32 -> logits, i32",
        .doc = "The k largest entries of softmax(logits), largest first; with "
               "renormalize divided by their sum.",
        RUN("f32", route_experts)})
