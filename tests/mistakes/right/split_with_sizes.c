// SPDX-License-Identifier: Apache-2.0
// split by a list of sizes, empty ones among them.

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

MODULE(
    split_with_sizes,
    {.schema = "split_with_sizes(Tensor x, int[] sizes, int dim=0) -> Tensor[]",
     .shape = "x[*A, D@dim, *B] -> {i < len(sizes): [*A, sizes[i], *B]}",
     .where = "sum(sizes) == D",
     .dtype = "x: f32|bf16 -> x",
     .backward = "split_with_sizes_backward(grad, x, sizes, dim) -> x",
     RUN("f32|bf16", forward)},
    {.schema = "split_with_sizes_backward(Tensor[] grads, Tensor x, int[] "
               "sizes, int dim) -> Tensor",
     .shape = "x[*A, D@dim, *B], grads[][*A, E~@dim, *B] -> [*A, D, *B]",
     .where = "sum(sizes) == D, len(grads) == len(sizes), sum(E~) == D",
     .dtype = "grads: f32|bf16, x: grads -> x",
     RUN("f32|bf16", backward)})
