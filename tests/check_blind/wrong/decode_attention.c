// SPDX-License-Identifier: Apache-2.0
// decode_attention: one query over a row of keys, online softmax by blocks.

#include "../../modules/operators.h"

enum { B, H, D, S };  // dims of the shape rule
enum { BLOCK = 16 };

static void heads(const og_call *call, int64_t begin, int64_t end) {
  const int64_t count = call->dim[S], width = call->dim[D];
  const int64_t blocks = count < BLOCK ? 1 : (count + BLOCK - 2) / BLOCK;
  for (int64_t bh = begin; bh < end; ++bh) {
    const float *q = og_f32(call->in[0]) + bh * width;
    const float *k = og_f32(call->in[1]) + bh * count * width;
    const float *v = og_f32(call->in[2]) + bh * count * width;
    float *y = og_f32_mut(call->out[0]) + bh * width;
    float top = -INFINITY, sum = 0;
    for (int64_t d = 0; d < width; ++d) y[d] = 0;
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t s = block * BLOCK; s < (block + 1) * BLOCK && s < count;
           ++s) {
        float score = 0;
        for (int64_t d = 0; d < width; ++d) score += q[d] * k[s * width + d];
        score /= sqrtf((float)width);
        const float next = score > top ? score : top;
        const float old = expf(top - next), weight = expf(score - next);
        for (int64_t d = 0; d < width; ++d)
          y[d] = y[d] * old + weight * v[s * width + d];
        sum = sum * old + weight;
        top = next;
      }
    for (int64_t d = 0; d < width; ++d) y[d] /= sum;
  }
}

static og_status decode_attention(const og_call *call) {
  return og_parallel_for(call, call->dim[B] * call->dim[H], 1, heads);
}

MODULE(decode_attention,
       {.schema = "decode_attention(Tensor q, Tensor k, Tensor v) -> Tensor",
        .shape = "q[B, H, D], k[B, H, S, D], v[B, H, S, D] -> [B, H, D]",
        .where = "D > 0, S > 0",
        .doc = "softmax(q k^T / sqrt(D)) v for one query of each head.",
        RUN("f32", decode_attention)})
