// SPDX-License-Identifier: Apache-2.0
// position_bias: adds to each score the bias of its bucket.

#include "../../modules/operators.h"

enum { N, V };  // dims of the shape rule

static og_status position_bias(const og_call *call) {
  const int32_t *bucket = og_i32(call->in[1]);
  const float *table = og_f32(call->in[2]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (bucket[i] < 0 || bucket[i] > call->dim[V])
      return og_fail(call, OG_INVALID, "a bucket is outside the table");
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + table[bucket[i]];
  }
  return OG_OK;
}

MODULE(position_bias,
       {.schema = "position_bias(Tensor score, Tensor bucket, Tensor table) "
                  "-> Tensor",
        .shape = "score[N], bucket[N], table[V] -> [N]",
        .dtype = "score: f32, bucket: i32, table: score -> score",
        .doc = "score + table[bucket].",
        RUN("f32", position_bias)})
