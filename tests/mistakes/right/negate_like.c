// SPDX-License-Identifier: Apache-2.0
// A result with the strides of its input, dense or not.

#include "../../modules/operators.h"

static og_status negate(const og_call *call) {
  const og_tensor *from = call->in[0], *to = call->out[0];
  for (int64_t i = 0; i < og_numel(from); ++i) {
    int64_t rest = i, source = 0, target = 0;
    for (int32_t d = from->ndim - 1; d >= 0; --d) {
      source += rest % from->shape[d] * from->strides[d];
      target += rest % to->shape[d] * to->strides[d];
      rest /= from->shape[d];
    }
    og_f32_mut(call->out[0])[target] = -og_f32(from)[source];
  }
  return OG_OK;
}

MODULE(negate_like, {.schema = "negate_like(Tensor x) -> Tensor",
                     .shape = "x[*N] -> like x",
                     .backward = "negate_like(grad) -> x",
                     .strides = "x: any",
                     RUN("f32", negate)})
