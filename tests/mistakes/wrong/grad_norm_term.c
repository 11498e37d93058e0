// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient treats the row scale of the norm as a constant and so lacks its second term.
// expect: unit_rms|unit_rms_backward x gradient

#include <math.h>
#include <opgraft/op.h>

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

static const og_kernel unit_rms_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = forward},
};
static const og_kernel unit_rms_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = backward},
};

static const og_op ops[] = {
    {
        .schema = "unit_rms(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .backward = "unit_rms_backward(grad, x) -> x",
        .kernels = OG_KERNELS(unit_rms_kernels),
    },
    {
        .schema = "unit_rms_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N, D], x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .kernels = OG_KERNELS(unit_rms_backward_kernels),
    },
};
OG_MODULE(grad_norm_term, ops)
