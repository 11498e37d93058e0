// SPDX-License-Identifier: Apache-2.0
// mistake: The input is read from its data pointer, without byte_offset.
// expect: halve x byte_offset|offset|layout

#include "../../modules/operators.h"

enum { N };

static og_status halve(const og_call *call) {
  const float *x = (const float *)call->in[0]->data;
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * 0.5f;
  return OG_OK;
}

MODULE(offset_ignored_input, {.schema = "halve(Tensor x) -> Tensor",
                              .shape = "x[*N] -> [*N]",
                              RUN("f32", halve)})
