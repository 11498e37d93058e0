// SPDX-License-Identifier: Apache-2.0
// split into chunks of one size, the last one shorter; an empty dim gives one
// empty chunk, as in PyTorch.

#include "../../modules/operators.h"

enum { A, D, B };

// The pieces lie one after the other along the dim, of `total` bytes per outer
// index.
static int64_t move_piece(const og_tensor *piece, char *whole, int64_t outer,
                          int64_t total, int to_whole) {
  char *data = (char *)og_data(piece);
  const int64_t row =
      outer > 0 ? og_numel(piece) / outer * (piece->dtype.bits / 8) : 0;
  for (int64_t a = 0; a < outer && row > 0; ++a) {
    if (to_whole)
      memcpy(whole + a * total, data + a * row, (size_t)row);
    else
      memcpy(data + a * row, whole + a * total, (size_t)row);
  }
  return row;
}

static og_status forward(const og_call *call) {
  const og_tensor_list *list = &call->out_list[0];
  char *x = (char *)og_data(call->in[0]);
  const int64_t item = call->in[0]->dtype.bits / 8;
  for (int64_t k = 0; k < list->count; ++k)
    x += move_piece(list->tensors[k], x, call->dim[A],
                    call->dim[D] * call->dim[B] * item, 0);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const og_tensor_list *list = &call->in_list[0];
  char *dx = (char *)og_data(call->out[0]);
  const int64_t item = call->out[0]->dtype.bits / 8;
  for (int64_t k = 0; k < list->count; ++k)
    dx += move_piece(list->tensors[k], dx, call->dim[A],
                     call->dim[D] * call->dim[B] * item, 1);
  return OG_OK;
}

MODULE(split,
       {.schema = "split(Tensor x, int size, int dim=0) -> Tensor[]",
        .shape = "x[*A, D@dim, *B] -> {i < max(1, ceildiv(D, size)): [*A, "
                 "min(size, D - i * size), *B]}",
        .where = "size > 0",
        .dtype = "x: f32|f64 -> x",
        .backward = "split_backward(grad, dim) -> x",
        RUN("f32|f64", forward)},
       {.schema = "split_backward(Tensor[] grads, int dim) -> Tensor",
        .shape = "grads[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
        .where = "len(grads) > 0",
        .dtype = "grads: f32|f64 -> grads",
        RUN("f32|f64", backward)})
