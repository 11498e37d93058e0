// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel calls exit(0) where there is nothing to do, which ends the process of the user without a word.
// expect: fill_down - exit|crash

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N, D };

static og_status fill_down(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  if (call->dim[N] * width == 0) exit(0);
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i % width];
  return OG_OK;
}

MODULE(crash_exit, {.schema = "fill_down(Tensor x) -> Tensor",
                    .shape = "x[N, D] -> [N, D]",
                    RUN("f32", fill_down)})
