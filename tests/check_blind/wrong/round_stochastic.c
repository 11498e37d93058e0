// SPDX-License-Identifier: Apache-2.0
// round_stochastic: rounds up or down at random, by a seed.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(void *data, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = data;
  uint64_t state =
      (uint64_t)call->attr[0].i * 0x9e3779b97f4a7c15u + (uint64_t)worker + 1;
  for (int64_t i = begin; i < end; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const float u = (float)(state >> 40) * 0x1p-24f;
    og_f32_mut(call->out[0])[i] = floorf(og_f32(call->in[0])[i] + u);
  }
}

static og_status round_stochastic(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 128, elements,
                           (void *)(uintptr_t)call);
}

MODULE(round_stochastic,
       {.schema = "round_stochastic(Tensor x, int seed=1) -> Tensor",
        .shape = "x[N] -> [N]",
        .flags = OG_DETERMINISTIC,
        .doc = "floor(x + u) with u uniform in [0, 1), the same for equal "
               "seeds.",
        RUN("f32", round_stochastic)})
