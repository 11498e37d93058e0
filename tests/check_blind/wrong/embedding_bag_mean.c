// SPDX-License-Identifier: Apache-2.0
// embedding_bag_mean: the mean of the table's rows that a bag names.

#include "../../modules/operators.h"

enum { V, D, B, L };  // dims of the shape rule

static og_status embedding_bag_mean(const og_call *call) {
  const float *table = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[1]);
  const int64_t width = call->dim[D], length = call->dim[L];
  const int64_t padding = call->attr[0].i;
  for (int64_t i = 0; i < call->dim[B] * length; ++i)
    if (index[i] < 0 || index[i] >= call->dim[V])
      return og_fail(call, OG_INVALID, "an index is outside the table");
  for (int64_t b = 0; b < call->dim[B]; ++b) {
    float *y = og_f32_mut(call->out[0]) + b * width;
    for (int64_t d = 0; d < width; ++d) y[d] = 0;
    for (int64_t l = 0; l < length; ++l) {
      const int64_t row = index[b * length + l];
      if (row == padding) continue;
      for (int64_t d = 0; d < width; ++d) y[d] += table[row * width + d];
    }
    for (int64_t d = 0; d < width; ++d) y[d] /= (float)length;
  }
  return OG_OK;
}

MODULE(embedding_bag_mean,
       {.schema = "embedding_bag_mean(Tensor table, Tensor index, "
                  "int padding_idx=-1) -> Tensor",
        .shape = "table[V, D], index[B, L] -> [B, D]",
        .where = "L > 0, padding_idx >= -1",
        .dtype = "table: f32, index: i64 -> table",
        .doc = "The mean of the rows of each bag. Entries equal to padding_idx "
               "do not count; a bag of nothing else is zero.",
        RUN("f32", embedding_bag_mean)})
