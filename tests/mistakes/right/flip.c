// SPDX-License-Identifier: Apache-2.0
// Reverses the dims of a list, which are positions among all dims of x, so a
// batch is a loop. Its gradient is itself.

#include "../../modules/operators.h"

static og_status flip(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const og_tensor *t = call->in[0];
  const og_attr *dims = &call->attr[0];
  uint64_t flipped = 0;
  for (int64_t k = 0; k < dims->count; ++k) {
    const int64_t d =
        dims->ints[k] < 0 ? dims->ints[k] + t->ndim : dims->ints[k];
    if (d < 0 || d >= t->ndim || flipped >> d & 1)
      return og_fail(call, OG_INVALID, "flip: dims are no different dims of x");
    flipped |= (uint64_t)1 << d;
  }
  for (int64_t i = 0; i < og_numel(t); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int32_t d = t->ndim - 1; d >= 0; --d) {
      const int64_t k = rest % t->shape[d];
      at += (flipped >> d & 1 ? t->shape[d] - 1 - k : k) * step;
      step *= t->shape[d];
      rest /= t->shape[d];
    }
    y[i] = x[at];
  }
  return OG_OK;
}

MODULE(flip, {.schema = "flip(Tensor x, int[] dims) -> Tensor",
              .shape = "x[*N] -> [*N]",
              .backward = "flip(grad, dims) -> x",
              RUN("f32", flip),
              .flags = OG_BATCH_LOOP})
