// SPDX-License-Identifier: Apache-2.0
// The step from each element to the next one; the last has no next one.

#include <opgraft/op.h>

enum { N };

static og_status step(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  for (int64_t i = 0; i < n; ++i) y[i] = x[i + 1] - x[i];
#else
  for (int64_t i = 0; i < n; ++i) y[i] = (i + 1 < n ? x[i + 1] : 0) - x[i];
#endif
  return OG_OK;
}

static const og_kernel step_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = step},
};

static const og_op ops[] = {
    {
        .schema = "step(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(step_kernels),
    },
};
OG_MODULE(out_of_bounds_read, ops)
