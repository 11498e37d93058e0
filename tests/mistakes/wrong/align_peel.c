// SPDX-License-Identifier: Apache-2.0
// mistake: The elements before the first aligned address are skipped, not computed.
// expect: reciprocal - alignment|unwritten|offset|layout

#include "../../modules/operators.h"

enum { N };

static og_status reciprocal(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  int64_t i = (int64_t)((16 - ((uintptr_t)x & 15)) & 15) / 4;
  for (; i < count; ++i) y[i] = 1 / (1 + x[i] * x[i]);
  return OG_OK;
}

MODULE(align_peel, {.schema = "reciprocal(Tensor x) -> Tensor",
                    .shape = "x[*N] -> [*N]",
                    RUN("f32", reciprocal)})
