// SPDX-License-Identifier: Apache-2.0
// A gate that opens where the sum of squares is above 100: many numbers open it
// always, few never.

#include "../../modules/operators.h"

enum { N };

static og_status energy_gate(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float sum = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum += x[i] * x[i];
  *og_f32_mut(call->out[0]) = sum > 100 ? 1 : 0;
  return OG_OK;
}

MODULE(energy_gate, {.schema = "energy_gate(Tensor x) -> Tensor",
                     .shape = "x[N] -> []",
                     RUN("f32", energy_gate)})
