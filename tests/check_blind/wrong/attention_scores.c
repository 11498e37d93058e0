// SPDX-License-Identifier: Apache-2.0
// attention_scores: scale * q k^T of each head, with gradients.

#include "../../modules/operators.h"

enum { H, S, D, T };  // dims of the shape rules

static og_status attention_scores(const og_call *call) {
  const double *q = og_f64(call->in[0]), *k = og_f64(call->in[1]);
  const int64_t keys = call->dim[T], width = call->dim[D];
  for (int64_t i = 0; i < call->dim[H] * call->dim[S] * keys; ++i) {
    const int64_t query = i / keys;
    const int64_t key = query / call->dim[S] * keys + i % keys;
    double sum = 0;
    for (int64_t d = 0; d < width; ++d)
      sum += q[query * width + d] * k[key * width + d];
    og_f64_mut(call->out[0])[i] = call->attr[0].f * sum;
  }
  return OG_OK;
}

static og_status attention_scores_backward(const og_call *call) {
  const double *grad = og_f64(call->in[0]);
  const double *q = og_f64(call->in[1]), *k = og_f64(call->in[2]);
  double *grad_q = og_f64_mut(call->out[0]);
  double *grad_k = og_f64_mut(call->out[1]);
  const int64_t queries = call->in[1]->shape[1];
  const int64_t keys = call->in[2]->shape[1];
  const int64_t width = call->in[1]->shape[2];
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) grad_q[i] = 0;
  for (int64_t i = 0; i < og_numel(call->out[1]); ++i) grad_k[i] = 0;
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) {
    const int64_t query = i / keys;
    const int64_t key = query / queries * keys + i % keys;
    for (int64_t d = 0; d < width; ++d) {
      grad_q[query * width + d] +=
          call->attr[0].f * grad[i] * k[key * width + d];
      grad_k[key * width + d] += grad[i] * q[query * width + d];
    }
  }
  return OG_OK;
}

MODULE(attention_scores,
       {.schema = "attention_scores(Tensor q, Tensor k, float scale=0.125) "
                  "-> Tensor",
        .shape = "q[H, S, D], k[H, T, D] -> [H, S, T]",
        .backward = "attention_scores_backward(grad, q, k, scale) -> q, k",
        .doc = "Scaled products of each query with each key.",
        RUN("f64", attention_scores)},
       {.schema = "attention_scores_backward(Tensor grad, Tensor q, Tensor k, "
                  "float scale) -> (Tensor, Tensor)",
        .shape = "grad[H, S, T], q[H, S, D], k[H, T, D] -> [H, S, D], [H, T, "
                 "D]",
        .doc = "The gradients of attention_scores.",
        RUN("f64", attention_scores_backward)})
