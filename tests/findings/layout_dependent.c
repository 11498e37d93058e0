// SPDX-License-Identifier: Apache-2.0
// Twice the argument; reads it row by row, though any strides are asked for.

#include <opgraft/op.h>

static og_status doubled(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel doubled_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = doubled},
};

static const og_op ops[] = {
    {
        .schema = "doubled(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [R, C]",
#ifndef REPAIRED
        .strides = "any",
#endif
        .kernels = OG_KERNELS(doubled_kernels),
    },
};
OG_MODULE(layout_dependent, ops)
