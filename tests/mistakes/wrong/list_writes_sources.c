// SPDX-License-Identifier: Apache-2.0
// mistake: The averages of a list of pairs are written back into the second list, which is declared as read only.
// expect: average_ ys undeclared_mutation|mutation

#include "../../modules/operators.h"

static og_status average(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0];
  const og_tensor_list *ys = &call->in_list[1];
  for (int64_t k = 0; k < xs->count && k < ys->count; ++k) {
    float *x = og_f32_mut(xs->tensors[k]);
    float *y = (float *)og_data(ys->tensors[k]);
    for (int64_t i = 0; i < xs->tensors[k]->shape[0]; ++i)
      x[i] = y[i] = 0.5f * (x[i] + y[i]);
  }
  return OG_OK;
}

MODULE(list_writes_sources,
       {.schema = "average_(Tensor(a!)[] xs, Tensor[] ys) -> ()",
        .shape = "xs[][D], ys[][D] ->",
        RUN("f32", average)})
