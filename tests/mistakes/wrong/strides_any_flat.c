// SPDX-License-Identifier: Apache-2.0
// mistake: Any strides are accepted, but the kernel walks the input as if it were contiguous.
// expect: negate x strides|contiguous|layout

#include "../../modules/operators.h"

enum { N };

static og_status negate(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = -x[i];
  return OG_OK;
}

MODULE(strides_any_flat, {.schema = "negate(Tensor x) -> Tensor",
                          .shape = "x[*N] -> [*N]",
                          .strides = "any",
                          RUN("f32", negate)})
