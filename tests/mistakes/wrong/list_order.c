// SPDX-License-Identifier: Apache-2.0
// mistake: The entries are joined in reverse order when there are three or more; the gradient is that of the right order.
// expect: join|join_backward xs gradient|list|value

#include "../../modules/operators.h"

static og_status forward(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t k = 0; k < xs->count; ++k) {
    const og_tensor *t = xs->tensors[xs->count >= 3 ? xs->count - 1 - k : k];
    for (int64_t i = 0; i < t->shape[0]; ++i) *y++ = 3 * og_f32(t)[i];
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const og_tensor_list *list = &call->out_list[0];
  for (int64_t k = 0; k < list->count; ++k)
    for (int64_t i = 0; i < list->tensors[k]->shape[0]; ++i)
      og_f32_mut(list->tensors[k])[i] = 3 * *grad++;
  return OG_OK;
}

MODULE(list_order,
       {.schema = "join(Tensor[] xs) -> Tensor",
        .shape = "xs[][D~] -> [sum(D~)]",
        .backward = "join_backward(grad, xs) -> xs",
        RUN("f32", forward)},
       {.schema = "join_backward(Tensor grad, Tensor[] xs) -> Tensor[]",
        .shape = "grad[S], xs[][D~] -> {i < len(xs): [D~[i]]}",
        .where = "S == sum(D~)",
        RUN("f32", backward)})
