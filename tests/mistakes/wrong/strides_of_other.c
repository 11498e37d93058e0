// SPDX-License-Identifier: Apache-2.0
// mistake: Both matrices may have any strides, but the second is indexed with the strides of the first.
// expect: subtract y strides|layout

#include "../../modules/operators.h"

enum { R, C };

static og_status subtract(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  const int64_t *step = call->in[0]->strides;
  for (int64_t r = 0; r < call->dim[R]; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c)
      z[r * call->dim[C] + c] =
          x[r * step[0] + c * step[1]] - y[r * step[0] + c * step[1]];
  return OG_OK;
}

MODULE(strides_of_other, {.schema = "subtract(Tensor x, Tensor y) -> Tensor",
                          .shape = "x[R, C], y[R, C] -> [R, C]",
                          .strides = "any",
                          RUN("f32", subtract)})
