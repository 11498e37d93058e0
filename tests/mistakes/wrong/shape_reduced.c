// SPDX-License-Identifier: Apache-2.0
// mistake: The rule drops the last dim as a reduction would, but the kernel writes every element.
// expect: center - shape_rule|out_of_bounds_write

#include "../../modules/operators.h"

enum { N, D };

static og_status center(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] - sum / (float)width;
  }
  return OG_OK;
}

MODULE(shape_reduced, {.schema = "center(Tensor x) -> Tensor",
                       .shape = "x[*N, D] -> [*N]",
                       RUN("f32", center)})
