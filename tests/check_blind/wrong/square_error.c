// SPDX-License-Identifier: Apache-2.0
// square_error: mean of (x - y)^2 of each row, with gradients.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rules

static og_status square_error(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const float d = og_f32(call->in[0])[i] - og_f32(call->in[1])[i];
      sum += d * d;
    }
    og_f32_mut(call->out[0])[r] = sum / (float)width;
  }
  return OG_OK;
}

static og_status square_error_backward(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) {
    const float d = og_f32(call->in[1])[i] - og_f32(call->in[2])[i];
    const float g = og_f32(call->in[0])[i / width] * d / (float)width;
    og_f32_mut(call->out[0])[i] = g;
    og_f32_mut(call->out[1])[i] = -g;
  }
  return OG_OK;
}

MODULE(square_error,
       {.schema = "square_error(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N, D], y[*N, D] -> [*N]",
        .where = "D > 0",
        .backward = "square_error_backward(grad, x, y) -> x, y",
        .doc = "The mean square error of the last axis.",
        RUN("f32", square_error)},
       {.schema = "square_error_backward(Tensor grad, Tensor x, Tensor y) "
                  "-> (Tensor, Tensor)",
        .shape = "grad[*N], x[*N, D], y[*N, D] -> [*N, D], [*N, D]",
        .where = "D > 0",
        .doc = "The gradients of square_error.",
        RUN("f32", square_error_backward)})
