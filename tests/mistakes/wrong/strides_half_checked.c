// SPDX-License-Identifier: Apache-2.0
// mistake: The fast path for contiguous input looks at the inner stride only.
// expect: twice x strides|contiguous|layout

#include "../../modules/operators.h"

enum { R, C };

static og_status twice(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t rows = call->dim[R], columns = call->dim[C];
  const int64_t *step = call->in[0]->strides;
  if (step[1] == 1) {
    for (int64_t i = 0; i < rows * columns; ++i) y[i] = 2 * x[i];
    return OG_OK;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[r * columns + c] = 2 * x[r * step[0] + c * step[1]];
  return OG_OK;
}

MODULE(strides_half_checked, {.schema = "twice(Tensor x) -> Tensor",
                              .shape = "x[R, C] -> [R, C]",
                              .strides = "x: any",
                              RUN("f32", twice)})
