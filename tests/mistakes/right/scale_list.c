// SPDX-License-Identifier: Apache-2.0
// Scales every tensor of a list in place, whatever its length.

#include "../../modules/operators.h"

static og_status scale_list(const og_call *call) {
  const og_tensor_list *xs = &call->out_list[0];
  for (int64_t k = 0; k < xs->count; ++k)
    for (int64_t i = 0; i < og_numel(xs->tensors[k]); ++i)
      og_f32_mut(xs->tensors[k])[i] *= (float)call->attr[0].f;
  return OG_OK;
}

MODULE(scale_list,
       {.schema = "scale_list_(Tensor(a!)[] xs, float by=0.5) -> ()",
        .shape = "xs[][*A, D~] ->",
        RUN("f32", scale_list)})
