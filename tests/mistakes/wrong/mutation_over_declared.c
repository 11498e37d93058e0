// SPDX-License-Identifier: Apache-2.0
// mistake: The state is declared to be written, but the kernel only reads it.
// expect: add_state state over_declared|over-declared|mutation|never_written

#include "../../modules/operators.h"

enum { N };

static og_status add_state(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *state = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] + state[i];
  return OG_OK;
}

MODULE(mutation_over_declared,
       {.schema = "add_state(Tensor x, Tensor(a!) state) -> Tensor",
        .shape = "x[*N], state[*N] -> [*N]",
        RUN("f32", add_state)})
