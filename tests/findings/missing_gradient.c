// SPDX-License-Identifier: Apache-2.0
// A product, of which only one factor gets a gradient.

#include <opgraft/op.h>

enum { N };

static og_status product(const og_call *call) {
  const float *w = og_f32(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * w[i];
  return OG_OK;
}

static og_status product_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
#ifndef REPAIRED
  const float *w = og_f32(call->in[1]);
#else
  const float *x = og_f32(call->in[1]), *w = og_f32(call->in[2]);
#endif
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[0])[i] = grad[i] * w[i];
#ifdef REPAIRED
    og_f32_mut(call->out[1])[i] = grad[i] * x[i];
#endif
  }
  return OG_OK;
}

static const og_kernel product_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = product_backward},
};

static const og_kernel product_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = product},
};

static const og_op ops[] = {
    {
        .schema = "product(Tensor x, Tensor w) -> Tensor",
        .shape = "x[N], w[N] -> [N]",
#ifndef REPAIRED
        .backward = "product_backward(grad, w) -> x",
#else
        .backward = "product_backward(grad, x, w) -> x, w",
#endif
        .kernels = OG_KERNELS(product_kernels),
    },
    {
#ifndef REPAIRED
        .schema = "product_backward(Tensor grad, Tensor w) -> Tensor",
        .shape = "grad[N], w[N] -> [N]",
#else
        .schema =
            "product_backward(Tensor grad, Tensor x, Tensor w) -> (Tensor, "
            "Tensor)",
        .shape = "grad[N], x[N], w[N] -> [N], [N]",
#endif
        .kernels = OG_KERNELS(product_backward_kernels),
    },
};
OG_MODULE(missing_gradient, ops)
