// SPDX-License-Identifier: Apache-2.0
// mistake: The values are divided by the greatest of their share, so that the result depends on how the loop is cut.
// expect: scale_to_max - chunk|threads

#include "../../modules/operators.h"

enum { N };

static void scale_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float best = 1e-6f;
  for (int64_t i = begin; i < end; ++i) best = fmaxf(best, fabsf(x[i]));
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] / best;
}

static og_status scale_to_max(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, scale_share);
}

MODULE(chunk_as_group, {.schema = "scale_to_max(Tensor x) -> Tensor",
                        .shape = "x[N] -> [N]",
                        RUN("f32", scale_to_max)})
