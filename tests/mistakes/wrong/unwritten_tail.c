// SPDX-License-Identifier: Apache-2.0
// mistake: Four elements at a time, and no loop for the rest.
// expect: square - unwritten

#include "../../modules/operators.h"

enum { N };

static og_status square(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i + 4 <= call->dim[N]; i += 4)
    for (int64_t k = i; k < i + 4; ++k) y[k] = x[k] * x[k];
  return OG_OK;
}

MODULE(unwritten_tail, {.schema = "square(Tensor x) -> Tensor",
                        .shape = "x[*N] -> [*N]",
                        RUN("f32", square)})
