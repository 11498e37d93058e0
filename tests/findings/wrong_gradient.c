// SPDX-License-Identifier: Apache-2.0
// The square of each element; its gradient lacks the factor 2.

#include <opgraft/op.h>

enum { N };

static og_status square(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * x[i];
  return OG_OK;
}

static og_status square_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  float *out = og_f32_mut(call->out[0]);
#ifndef REPAIRED
  for (int64_t i = 0; i < call->dim[N]; ++i) out[i] = x[i] * grad[i];
#else
  for (int64_t i = 0; i < call->dim[N]; ++i) out[i] = 2 * x[i] * grad[i];
#endif
  return OG_OK;
}

static const og_kernel square_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = square_backward},
};

static const og_kernel square_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = square},
};

static const og_op ops[] = {
    {
        .schema = "square(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .backward = "square_backward(grad, x) -> x",
        .kernels = OG_KERNELS(square_kernels),
    },
    {
        .schema = "square_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[N], x[N] -> [N]",
        .kernels = OG_KERNELS(square_backward_kernels),
    },
};
OG_MODULE(wrong_gradient, ops)
