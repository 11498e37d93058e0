// SPDX-License-Identifier: Apache-2.0
// Twice the argument, without a word on its gradient.

#include <opgraft/op.h>

enum { N };

static og_status doubled(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel doubled_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = doubled},
};

static const og_op ops[] = {
    {
        .schema = "doubled(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
#ifdef REPAIRED
        .backward = "doubled_backward(grad) -> x",
#endif
        .kernels = OG_KERNELS(doubled_kernels),
    },
#ifdef REPAIRED
    {
        .schema = "doubled_backward(Tensor grad) -> Tensor",
        .shape = "grad[N] -> [N]",
        .kernels = OG_KERNELS(doubled_kernels),
    },
#endif
};
OG_MODULE(no_gradient, ops)
