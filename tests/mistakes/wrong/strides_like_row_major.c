// SPDX-License-Identifier: Apache-2.0
// mistake: The result has the strides of x (like x), but the kernel writes it in row-major order.
// expect: cube - strides|layout

#include "../../modules/operators.h"

enum { R, C };

static og_status cube(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t *step = call->in[0]->strides;
  for (int64_t r = 0; r < call->dim[R]; ++r) {
    for (int64_t c = 0; c < call->dim[C]; ++c) {
      const float value = x[r * step[0] + c * step[1]];
      y[r * call->dim[C] + c] = value * value * value;
    }
  }
  return OG_OK;
}

MODULE(strides_like_row_major, {.schema = "cube(Tensor x) -> Tensor",
                                .shape = "x[R, C] -> like x",
                                .strides = "x: any",
                                RUN("f32", cube)})
