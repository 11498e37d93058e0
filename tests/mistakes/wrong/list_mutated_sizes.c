// SPDX-License-Identifier: Apache-2.0
// mistake: All tensors of a mutated list are scaled over the length of the first.
// expect: scale_all_ xs out_of_bounds_write|write|out_of_bounds_read|read|list

#include "../../modules/operators.h"

static og_status scale_all(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0];
  const int64_t length = xs->count > 0 ? og_numel(xs->tensors[0]) : 0;
  for (int64_t k = 0; k < xs->count; ++k)
    for (int64_t i = 0; i < length; ++i)
      og_f32_mut(xs->tensors[k])[i] *= (float)call->attr[0].f;
  return OG_OK;
}

MODULE(list_mutated_sizes,
       {.schema = "scale_all_(Tensor(a!)[] xs, float by) -> ()",
        .shape = "xs[][D~] ->",
        RUN("f32", scale_all)})
