// SPDX-License-Identifier: Apache-2.0
// mistake: The backward operator overwrites the saved result with the gradient.
// expect: tanh_backward y undeclared_mutation|mutation

#include <math.h>
#include <opgraft/op.h>

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = tanhf(x[i]);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *y = (float *)og_data(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    y[i] = grad[i] * (1 - y[i] * y[i]);
    dx[i] = y[i];
  }
  return OG_OK;
}

static const og_kernel tanh_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = forward},
};
static const og_kernel tanh_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = backward},
};

static const og_op ops[] = {
    {
        .schema = "tanh(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "tanh_backward(grad, result) -> x",
        .kernels = OG_KERNELS(tanh_kernels),
    },
    {
        .schema = "tanh_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        .kernels = OG_KERNELS(tanh_backward_kernels),
    },
};
OG_MODULE(mutation_in_backward, ops)
