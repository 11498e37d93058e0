// SPDX-License-Identifier: Apache-2.0
// relu_squared: max(x, 0)^2 in the layout of its argument.

#include "../../modules/operators.h"

enum { H, W };  // dims of the shape rule

static og_status relu_squared(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t height = call->dim[H], width = call->dim[W];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t h = 0; h < height; ++h)
    for (int64_t w = 0; w < width; ++w) {
      const float value = og_f32(x)[h * x->strides[0] + w * x->strides[1]];
      y[h * width + w] = value > 0 ? value * value : 0;
    }
  return OG_OK;
}

MODULE(relu_squared, {.schema = "relu_squared(Tensor x) -> Tensor",
                      .shape = "x[H, W] -> like x",
                      .strides = "any",
                      .doc = "The square of the rectifier.",
                      RUN("f32", relu_squared)})
