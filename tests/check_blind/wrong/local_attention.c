// SPDX-License-Identifier: Apache-2.0
// local_attention: causal attention of each query to a window of keys.

#include "../../modules/operators.h"

enum { T, D };  // dims of the shape rule

static void queries(const og_call *call, int64_t begin, int64_t end) {
  const double *k = og_f64(call->in[1]), *v = og_f64(call->in[2]);
  const int64_t width = call->dim[D], window = call->attr[0].i;
  for (int64_t t = begin; t < end; ++t) {
    const double *q = og_f64(call->in[0]) + t * width;
    double *y = og_f64_mut(call->out[0]) + t * width;
    int64_t first = t - window < 0 ? 0 : t - window + 1;
    if (first > t) first = t;
    double top = -INFINITY, sum = 0;
    for (int64_t d = 0; d < width; ++d) y[d] = 0;
    for (int64_t s = first; s <= t; ++s) {
      double score = 0;
      for (int64_t d = 0; d < width; ++d) score += q[d] * k[s * width + d];
      const double next = fmax(top, score);
      const double old = exp(top - next), weight = exp(score - next);
      for (int64_t d = 0; d < width; ++d)
        y[d] = y[d] * old + weight * v[s * width + d];
      sum = sum * old + weight;
      top = next;
    }
    for (int64_t d = 0; d < width; ++d) y[d] /= sum;
  }
}

static og_status local_attention(const og_call *call) {
  return og_parallel_for(call, call->dim[T], 4, queries);
}

MODULE(local_attention,
       {.schema = "local_attention(Tensor q, Tensor k, Tensor v, int window=4) "
                  "-> Tensor",
        .shape = "q[T, D], k[T, D], v[T, D] -> [T, D]",
        .where = "window >= 0, window < 64",
        .doc = "Query t sees key t and the window keys before it. Scores are "
               "not scaled.",
        RUN("f64", local_attention)})
