// SPDX-License-Identifier: Apache-2.0
// mistake: The path for aligned input adds where the other multiplies: results differ with the address.
// expect: add_twice x alignment|offset|layout

#include "../../modules/operators.h"

enum { N };

static og_status add_twice(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  if (((uintptr_t)x & 31) == 0) {
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] + 2;
    return OG_OK;
  }
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * 2;
  return OG_OK;
}

MODULE(align_fast_path, {.schema = "add_twice(Tensor x) -> Tensor",
                         .shape = "x[*N] -> [*N]",
                         RUN("f32", add_twice)})
