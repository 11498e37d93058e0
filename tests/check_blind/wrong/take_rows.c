// SPDX-License-Identifier: Apache-2.0
// take_rows: rows of a table by index, with the gradient of the table.

#include "../../modules/operators.h"

enum { V, D, N };  // dims of the forward rule

static og_status take_rows(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  const size_t bytes = (size_t)call->dim[D] * sizeof(float);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (index[i] < 0 || index[i] >= call->dim[V])
      return og_fail(call, OG_INVALID, "an index is outside the table");
    memcpy(og_f32_mut(call->out[0]) + i * call->dim[D],
           og_f32(call->in[0]) + index[i] * call->dim[D], bytes);
  }
  return OG_OK;
}

static og_status take_rows_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[2]);
  const int64_t count = call->in[2]->shape[0];
  const int64_t height = call->in[1]->shape[0];
  const int64_t width = call->in[1]->shape[1];
  float *y = og_f32_mut(call->out[0]);
  memset(y, 0, (size_t)(height * width) * sizeof *y);
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < 0 || index[i] >= height)
      return og_fail(call, OG_INVALID, "an index is outside the table");
    for (int64_t d = 0; d < width; ++d)
      y[index[i] * width + d] = grad[i * width + d];
  }
  return OG_OK;
}

MODULE(take_rows,
       {.schema = "take_rows(Tensor table, Tensor index) -> Tensor",
        .shape = "table[V, D], index[N] -> [N, D]",
        .dtype = "table: f32, index: i64 -> table",
        .backward = "take_rows_backward(grad, table, index) -> table",
        .doc = "Row i is row index[i] of the table.",
        RUN("f32", take_rows)},
       {.schema = "take_rows_backward(Tensor grad, Tensor table, Tensor index) "
                  "-> Tensor",
        .shape = "grad[N, D], table[V, D], index[N] -> [V, D]",
        .dtype = "grad: table, table: f32, index: i64 -> table",
        .doc = "The gradient of take_rows for its table.",
        RUN("f32", take_rows_backward)})
