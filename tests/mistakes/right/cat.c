// SPDX-License-Identifier: Apache-2.0
// cat along any dim; its gradient cuts the list apart again.

#include "../../modules/operators.h"

enum { A, D, B };

static og_status forward(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  char *y = (char *)og_data(call->out[0]);
  const int64_t item = call->out[0]->dtype.bits / 8;
  const int64_t total = call->dim[D] * call->dim[B] * item;
  int64_t at = 0;
  for (int64_t k = 0; k < xs->count; ++k) {
    const int64_t outer = call->dim[A];
    const int64_t row = outer > 0 ? og_numel(xs->tensors[k]) / outer * item : 0;
    for (int64_t a = 0; a < outer && row > 0; ++a)
      memcpy(y + a * total + at,
             (const char *)og_data(xs->tensors[k]) + a * row, (size_t)row);
    at += row;
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const og_tensor_list *list = &call->out_list[0];
  const char *grad = (const char *)og_data(call->in[0]);
  const int64_t item = call->in[0]->dtype.bits / 8, outer = call->dim[A];
  const int64_t total = outer > 0 ? og_numel(call->in[0]) / outer * item : 0;
  int64_t at = 0;
  for (int64_t k = 0; k < list->count; ++k) {
    const int64_t row =
        outer > 0 ? og_numel(list->tensors[k]) / outer * item : 0;
    for (int64_t a = 0; a < outer && row > 0; ++a)
      memcpy((char *)og_data(list->tensors[k]) + a * row, grad + a * total + at,
             (size_t)row);
    at += row;
  }
  return OG_OK;
}

MODULE(cat,
       {.schema = "cat(Tensor[] xs, int dim=0) -> Tensor",
        .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
        .where = "len(xs) > 0",
        .dtype = "xs: f32|f64|i64|bool -> xs",
        .backward = "cat_backward(grad, xs, dim) -> xs",
        RUN("f32|f64|i64|bool", forward)},
       {.schema = "cat_backward(Tensor grad, Tensor[] xs, int dim) -> Tensor[]",
        .shape = "grad[*A, S@dim, *B], xs[][*A, D~@dim, *B] -> {i < len(xs): "
                 "[*A, D~[i], *B]}",
        .where = "len(xs) > 0, S == sum(D~)",
        .dtype = "grad: f32|f64, xs: grad -> grad",
        RUN("f32|f64", backward)})
