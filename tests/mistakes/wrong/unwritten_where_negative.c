// SPDX-License-Identifier: Apache-2.0
// mistake: relu writes the positive elements and counts on the result to be zero elsewhere.
// expect: relu - unwritten

#include "../../modules/operators.h"

enum { N };

static og_status relu(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (x[i] > 0) y[i] = x[i];
  return OG_OK;
}

MODULE(unwritten_where_negative, {.schema = "relu(Tensor x) -> Tensor",
                                  .shape = "x[*N] -> [*N]",
                                  RUN("f32", relu)})
