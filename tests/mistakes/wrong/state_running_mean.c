// SPDX-License-Identifier: Apache-2.0
// mistake: A running mean that belongs in a mutated argument lives in a static array.
// expect: center_running - state|repetition|nondeterministic

#include "../../modules/operators.h"

enum { N, D };

static float running[4096];
static og_status center_running(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      running[i % 4096] = 0.9f * running[i % 4096] + 0.1f * x[r * width + i];
      y[r * width + i] = x[r * width + i] - running[i % 4096];
    }
  }
  return OG_OK;
}

MODULE(state_running_mean, {.schema = "center_running(Tensor x) -> Tensor",
                            .shape = "x[N, D] -> [N, D]",
                            RUN("f32", center_running)})
