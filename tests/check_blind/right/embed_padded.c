// SPDX-License-Identifier: Apache-2.0
// embed_padded: rows of a table; the padding row learns nothing.

#include "../../modules/operators.h"

static int is_known(const og_tensor *index, int64_t rows) {
  for (int64_t i = 0; i < index->shape[0]; ++i)
    if (og_i64(index)[i] < 0 || og_i64(index)[i] >= rows) return 0;
  return 1;
}

static og_status embed_padded(const og_call *call) {
  const og_tensor *table = call->in[0], *index = call->in[1];
  const int64_t width = table->shape[1];
  if (!is_known(index, table->shape[0]))
    return og_fail(call, OG_INVALID, "an index is outside the table");
  for (int64_t i = 0; i < index->shape[0] * width; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(table)[og_i64(index)[i / width] * width + i % width];
  return OG_OK;
}

static og_status embed_padded_backward(const og_call *call) {
  const og_tensor *table = call->in[1], *index = call->in[2];
  const int64_t width = table->shape[1];
  float *y = og_f32_mut(call->out[0]);
  if (!is_known(index, table->shape[0]))
    return og_fail(call, OG_INVALID, "an index is outside the table");
  for (int64_t i = 0; i < og_numel(table); ++i) y[i] = 0;
  for (int64_t i = 0; i < index->shape[0] * width; ++i) {
    const int64_t row = og_i64(index)[i / width];
    if (row != call->attr[0].i)
      y[row * width + i % width] += og_f32(call->in[0])[i];
  }
  return OG_OK;
}

MODULE(embed_padded,
       {.schema = "embed_padded(Tensor table, Tensor index, int padding_idx=0) "
                  "-> Tensor",
        .shape = "table[V, D], index[N] -> [N, D]",
        .dtype = "table: f32, index: i64 -> table",
        .backward = "embed_padded_backward(grad, table, index, padding_idx) "
                    "-> table",
        .expect = "no_gradient: table; unused: padding_idx",
        .doc = "table[index]. Row padding_idx of the table gets no gradient; "
               "it is not looked at otherwise.",
        RUN("f32", embed_padded)},
       {.schema = "embed_padded_backward(Tensor grad, Tensor table, Tensor "
                  "index, "
                  "int padding_idx) -> Tensor",
        .shape = "grad[N, D], table[V, D], index[N] -> [V, D]",
        .dtype = "grad: table, table: f32, index: i64 -> table",
        .expect = "unused: table",
        .doc = "The gradient of embed_padded; table is there for its size.",
        RUN("f32", embed_padded_backward)})
