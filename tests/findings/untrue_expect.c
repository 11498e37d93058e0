// SPDX-License-Identifier: Apache-2.0
// Scales the argument by an argument that the declaration calls unused.

#include <opgraft/op.h>

enum { N };

static og_status scale(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float by = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * by;
  return OG_OK;
}

static const og_kernel scale_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale},
};

static const og_op ops[] = {
    {
        .schema = "scale(Tensor x, float by) -> Tensor",
        .shape = "x[N] -> [N]",
#ifndef REPAIRED
        .expect = "unused: by",
#endif
        .kernels = OG_KERNELS(scale_kernels),
    },
};
OG_MODULE(untrue_expect, ops)
