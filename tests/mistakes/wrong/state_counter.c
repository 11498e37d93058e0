// SPDX-License-Identifier: Apache-2.0
// mistake: Every second call returns twice the value: a static counter decides.
// expect: halve - state|repetition|nondeterministic

#include "../../modules/operators.h"

enum { N };

static og_status halve(const og_call *call) {
  static int calls;
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float by = calls++ % 2 ? 1.0f : 0.5f;
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * by;
  return OG_OK;
}

MODULE(state_counter, {.schema = "halve(Tensor x) -> Tensor",
                       .shape = "x[*N] -> [*N]",
                       RUN("f32", halve)})
