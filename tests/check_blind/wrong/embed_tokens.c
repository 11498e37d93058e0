// SPDX-License-Identifier: Apache-2.0
// embed_tokens: rows of a table by token, times the root of their width.

#include "../../modules/operators.h"

enum { V, D, T };  // dims of the shape rule

static void tokens_embed(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  const float scale = sqrtf((float)width);
  for (int64_t t = begin; t < end; ++t) {
    const float *row = og_f32(call->in[0]) + og_i64(call->in[1])[t] * width;
    for (int64_t d = 0; d < width; ++d)
      og_f32_mut(call->out[0])[t * width + d] = row[d] * scale;
  }
}

static og_status embed_tokens(const og_call *call) {
  for (int64_t t = 0; t < call->dim[T]; ++t)
    if (og_i64(call->in[1])[t] >= call->dim[V])
      return og_fail(call, OG_INVALID, "a token is not in the vocabulary");
  return og_parallel_for(call, call->dim[T], 8, tokens_embed);
}

MODULE(embed_tokens,
       {.schema = "embed_tokens(Tensor table, Tensor token) -> Tensor",
        .shape = "table[V, D], token[T] -> [T, D]",
        .dtype = "table: f32, token: i64 -> table",
        .doc = "table[token] * sqrt(D).",
        RUN("f32", embed_tokens)})
