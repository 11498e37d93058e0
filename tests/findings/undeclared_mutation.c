// SPDX-License-Identifier: Apache-2.0
// Twice the argument, computed where the argument lies.

#include <opgraft/op.h>

enum { N };

static og_status doubled(const og_call *call) {
  float *x = (float *)og_data(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
#ifndef REPAIRED
    x[i] *= 2;
    y[i] = x[i];
#else
    y[i] = 2 * x[i];
#endif
  }
  return OG_OK;
}

static const og_kernel doubled_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = doubled},
};

static const og_op ops[] = {
    {
        .schema = "doubled(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(doubled_kernels),
    },
};
OG_MODULE(undeclared_mutation, ops)
