// SPDX-License-Identifier: Apache-2.0
// mistake: The rule gives D + 1 differences, but the kernel writes D - 1.
// expect: diff - shape_rule|unwritten

#include "../../modules/operators.h"

enum { D };

static og_status diff(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i + 1 < call->dim[D]; ++i) y[i] = x[i + 1] - x[i];
  return OG_OK;
}

MODULE(shape_too_big, {.schema = "diff(Tensor x) -> Tensor",
                       .shape = "x[D] -> [D + 1]",
                       RUN("f32", diff)})
