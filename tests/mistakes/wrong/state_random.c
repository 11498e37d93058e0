// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel draws from rand() without a seed argument and without the random flag.
// expect: jitter - state|repetition|nondeterministic|random

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N };

static og_status jitter(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] + (float)(rand() % 1000) * 1e-3f;
  return OG_OK;
}

MODULE(state_random, {.schema = "jitter(Tensor x) -> Tensor",
                      .shape = "x[*N] -> [*N]",
                      RUN("f32", jitter)})
