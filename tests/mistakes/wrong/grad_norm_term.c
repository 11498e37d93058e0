// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient treats the row scale of the norm as a constant and so lacks its second term.
// expect: unit_rms|unit_rms_backward x gradient

#include "../../modules/operators.h"

enum { N, D };

static float row_scale(const float *x, int64_t width) {
  float sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return 1 / sqrtf(sum / (float)width + 1e-5f);
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float scale = row_scale(x + r * width, width);
    for (int64_t i = r * width; i < (r + 1) * width; ++i) y[i] = x[i] * scale;
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float scale = row_scale(x + r * width, width);
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      dx[i] = grad[i] * scale;
  }
  return OG_OK;
}

MODULE(grad_norm_term,
       {.schema = "unit_rms(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .backward = "unit_rms_backward(grad, x) -> x",
        RUN("f32", forward)},
       {.schema = "unit_rms_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N, D], x[*N, D] -> [*N, D]",
        .where = "D > 0",
        RUN("f32", backward)})
