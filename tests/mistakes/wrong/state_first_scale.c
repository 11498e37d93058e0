// SPDX-License-Identifier: Apache-2.0
// mistake: The scale of the first tensor ever seen is kept in a static variable and used for all later ones.
// expect: quantize - state|repetition|nondeterministic

#include "../../modules/operators.h"

enum { N };

static float kept_scale;
static og_status quantize(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  if (kept_scale <= 0) {
    for (int64_t i = 0; i < call->dim[N]; ++i)
      kept_scale = fmaxf(kept_scale, fabsf(x[i]) / 127);
  }
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = kept_scale > 0 ? floorf(x[i] / kept_scale + 0.5f) * kept_scale : 0;
  return OG_OK;
}

MODULE(state_first_scale, {.schema = "quantize(Tensor x) -> Tensor",
                           .shape = "x[N] -> [N]",
                           RUN("f32", quantize)})
