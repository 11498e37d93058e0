// SPDX-License-Identifier: Apache-2.0
// mistake: The last axis is reversed, whichever one dim says.
// expect: reverse_along dim unused|ignored

#include "../../modules/operators.h"

static og_status reverse_along(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t width = x->shape[x->ndim - 1], count = og_numel(x);
  for (int64_t i = 0; i < count; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(x)[i / width * width + width - 1 - i % width];
  return OG_OK;
}

MODULE(reversed_last,
       {.schema = "reverse_along(Tensor x, int dim=-1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        RUN("f32", reverse_along)})
