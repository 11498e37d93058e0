// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel knows vectors and matrices; of a tensor of more dims it writes the first matrix only.
// expect: log1p_abs - unwritten

#include "../../modules/operators.h"

static og_status log1p_abs(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const og_tensor *t = call->in[0];
  int64_t count = 1;
  for (int32_t i = 0; i < 2 && i < t->ndim; ++i)
    count *= t->shape[t->ndim - 1 - i];
  for (int64_t i = 0; i < count && i < og_numel(t); ++i)
    y[i] = logf(1 + fabsf(x[i]));
  return OG_OK;
}

MODULE(unwritten_rank_three, {.schema = "log1p_abs(Tensor x) -> Tensor",
                              .shape = "x[*N] -> [*N]",
                              RUN("f32", log1p_abs)})
