// SPDX-License-Identifier: Apache-2.0
// A copy that returns how much it copied.

#include <opgraft/op.h>

enum { N };

static og_status copy(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
#ifndef REPAIRED
  return (og_status)(100 + n);
#else
  return OG_OK;
#endif
}

static const og_kernel copy_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = copy},
};

static const og_op ops[] = {
    {
        .schema = "copy(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(copy_kernels),
    },
};
OG_MODULE(bad_status, ops)
