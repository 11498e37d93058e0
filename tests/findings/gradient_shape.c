// SPDX-License-Identifier: Apache-2.0
// Adds a bias to each row. Its gradient is a sum over rows, but has their
// shape.

#include <opgraft/op.h>

enum { R, C };

static og_status add_bias(const og_call *call) {
  const float *bias = og_f32(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[R] * call->dim[C]; ++i)
    y[i] = x[i] + bias[i % call->dim[C]];
  return OG_OK;
}

static og_status add_bias_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *x = og_f32_mut(call->out[0]), *bias = og_f32_mut(call->out[1]);
  const int64_t count = call->dim[R] * call->dim[C];
  for (int64_t i = 0; i < count; ++i) x[i] = grad[i];
#ifndef REPAIRED
  for (int64_t i = 0; i < count; ++i) bias[i] = grad[i];
#else
  for (int64_t c = 0; c < call->dim[C]; ++c) bias[c] = 0;
  for (int64_t i = 0; i < count; ++i) bias[i % call->dim[C]] += grad[i];
#endif
  return OG_OK;
}

static const og_kernel add_bias_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_bias_backward},
};

static const og_kernel add_bias_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_bias},
};

static const og_op ops[] = {
    {
        .schema = "add_bias(Tensor x, Tensor bias) -> Tensor",
        .shape = "x[R, C], bias[C] -> [R, C]",
        .backward = "add_bias_backward(grad) -> x, bias",
        .kernels = OG_KERNELS(add_bias_kernels),
    },
    {
        .schema = "add_bias_backward(Tensor grad) -> (Tensor, Tensor)",
#ifndef REPAIRED
        .shape = "grad[R, C] -> [R, C], [R, C]",
#else
        .shape = "grad[R, C] -> [R, C], [C]",
#endif
        .kernels = OG_KERNELS(add_bias_backward_kernels),
    },
};
OG_MODULE(gradient_shape, ops)
