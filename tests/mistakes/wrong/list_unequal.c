// SPDX-License-Identifier: Apache-2.0
// mistake: Every entry of the list is taken to be as long as the first.
// expect: join xs out_of_bounds_read|read|list|unwritten|out_of_bounds_write

#include "../../modules/operators.h"

static og_status join(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  float *y = og_f32_mut(call->out[0]);
  const int64_t length = xs->count > 0 ? xs->tensors[0]->shape[0] : 0;
  for (int64_t k = 0; k < xs->count; ++k)
    for (int64_t i = 0; i < length; ++i)
      y[k * length + i] = og_f32(xs->tensors[k])[i];
  return OG_OK;
}

MODULE(list_unequal, {.schema = "join(Tensor[] xs) -> Tensor",
                      .shape = "xs[][D~] -> [sum(D~)]",
                      RUN("f32", join)})
