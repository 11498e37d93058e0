// SPDX-License-Identifier: Apache-2.0
// silu: x * sigmoid(x), with its gradient.

#include <math.h>
#include <opgraft/op.h>

enum { N };  // dim of the shape rules

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static og_status silu(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = x[i] * sigmoid(x[i]);
  return OG_OK;
}

static og_status silu_backward(const og_call *call) {
  const double *grad = og_f64(call->in[0]), *x = og_f64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double s = sigmoid(x[i]);
    og_f64_mut(call->out[0])[i] = grad[i] * s * (1 - x[i] * (1 - s));
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = silu}};

static const og_kernel backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = silu_backward}};

static const og_op ops[] = {
    {
        .schema = "silu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "silu_backward(grad, x) -> x",
        .doc = "x times its logistic function.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "silu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .doc = "The gradient of silu.",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(silu, ops)
