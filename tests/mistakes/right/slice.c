// SPDX-License-Identifier: Apache-2.0
// Elements from start to stop in steps: how many there are is in the result's
// size, so the kernel need not read where it stops.

#include "../../modules/operators.h"

static og_status slice(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t start = call->attr[0].i, step = call->attr[2].i;
  for (int64_t i = 0; i < call->out[0]->shape[0]; ++i)
    y[i] = x[start + i * step];
  return OG_OK;
}

MODULE(slice,
       {.schema = "slice(Tensor x, int start, int stop, int step) -> Tensor",
        .shape = "x[N] -> [(stop - start + step - 1) // step]",
        .where = "step > 1 and start >= 0 and start <= stop and stop <= N",
        RUN("f32", slice)})
