// SPDX-License-Identifier: Apache-2.0
// window_attention: each query sees the keys near its own position.

#include "../../modules/operators.h"

enum { H, T, D };  // dims of the shape rule

static void queries(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[T], width = call->dim[D];
  const int64_t radius = call->attr[0].i;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t head = i / length * length, t = i % length;
    const int64_t first = t > radius ? t - radius : 0;
    const int64_t last = t + radius < length ? t + radius : length - 1;
    const double *q = og_f64(call->in[0]) + i * width;
    double *y = og_f64_mut(call->out[0]) + i * width;
    double top = -INFINITY, sum = 0;
    for (int64_t d = 0; d < width; ++d) y[d] = 0;
    for (int64_t s = first; s <= last; ++s) {
      const double *k = og_f64(call->in[1]) + (head + s) * width;
      const double *v = og_f64(call->in[2]) + (head + s) * width;
      double score = 0;
      for (int64_t d = 0; d < width; ++d) score += q[d] * k[d];
      const double next = score > top ? score : top;
      const double old = exp(top - next), weight = exp(score - next);
      for (int64_t d = 0; d < width; ++d) y[d] = y[d] * old + weight * v[d];
      sum = sum * old + weight;
      top = next;
    }
    for (int64_t d = 0; d < width; ++d) y[d] /= sum;
  }
}

static og_status window_attention(const og_call *call) {
  return og_parallel_for(call, call->dim[H] * call->dim[T], 2, queries);
}

MODULE(window_attention,
       {.schema = "window_attention(Tensor q, Tensor k, Tensor v, int "
                  "radius=2) "
                  "-> Tensor",
        .shape = "q[H, T, D], k[H, T, D], v[H, T, D] -> [H, T, D]",
        .where = "radius >= 0, radius < 128",
        .doc = "Query t sees keys t - radius to t + radius; scores are not "
               "scaled.",
        RUN("f64", window_attention)})
