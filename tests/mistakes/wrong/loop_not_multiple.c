// SPDX-License-Identifier: Apache-2.0
// mistake: The loop advances by four while four are left, and for ever where they are not.
// expect: negate - hang|timeout|endless|time

#include "../../modules/operators.h"

enum { N };

static og_status negate(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  volatile int64_t i = 0;
  while (i < call->dim[N]) {
    if (i + 4 > call->dim[N]) continue;
    for (int64_t k = i; k < i + 4; ++k) y[k] = -x[k];
    i += 4;
  }
  return OG_OK;
}

MODULE(loop_not_multiple, {.schema = "negate(Tensor x) -> Tensor",
                           .shape = "x[*N] -> [*N]",
                           RUN("f32", negate)})
