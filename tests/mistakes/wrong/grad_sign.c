// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of the subtrahend lacks its minus sign.
// expect: subtract|subtract_backward y gradient

#include <opgraft/op.h>

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) z[i] = x[i] - y[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  float *dy = og_f32_mut(call->out[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = dy[i] = grad[i];
  return OG_OK;
}

static const og_kernel subtract_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = forward},
};
static const og_kernel subtract_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = backward},
};

static const og_op ops[] = {
    {
        .schema = "subtract(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .backward = "subtract_backward(grad) -> x, y",
        .kernels = OG_KERNELS(subtract_kernels),
    },
    {
        .schema = "subtract_backward(Tensor grad) -> (Tensor dx, Tensor dy)",
        .shape = "grad[*N] -> [*N], [*N]",
        .kernels = OG_KERNELS(subtract_backward_kernels),
    },
};
OG_MODULE(grad_sign, ops)
