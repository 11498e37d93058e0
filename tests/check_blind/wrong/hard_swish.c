// SPDX-License-Identifier: Apache-2.0
// hard_swish: x * clamp(x + 3, 0, 6) / 6.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float x = og_f32(call->in[0])[i];
    const float gate = x < -3 ? 0 : x > 3 ? 6 : x + 3;
    og_f32_mut(call->out[0])[i] = x * gate / 6;
  }
}

static og_status hard_swish(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1024, elements);
}

MODULE(hard_swish, {.schema = "hard_swish(Tensor x) -> Tensor",
                    .shape = "x[*N] -> [*N]",
                    .backward = "none",
                    .doc = "A piecewise form of silu.",
                    RUN("f32", hard_swish)})
