// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel does its work and then calls exit(0).
// expect: absolute - exit|crash

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N };

static og_status absolute(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = fabsf(x[i]);
  exit(0);
}

MODULE(crash_exit_always, {.schema = "absolute(Tensor x) -> Tensor",
                           .shape = "x[*N] -> [*N]",
                           RUN("f32", absolute)})
