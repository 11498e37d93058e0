// SPDX-License-Identifier: Apache-2.0
// Sums of the first 0, 1, 2, ... n elements: one more than there are
// elements.

#include <opgraft/op.h>

enum { N };

static og_status prefix_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  y[0] = 0;
  for (int64_t i = 0; i < n; ++i) y[i + 1] = y[i] + x[i];
  return OG_OK;
}

static const og_kernel prefix_sums_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = prefix_sums},
};

static const og_op ops[] = {
    {
        .schema = "prefix_sums(Tensor x) -> Tensor",
#ifndef REPAIRED
        .shape = "x[N] -> [N]",
#else
        .shape = "x[N] -> [N + 1]",
#endif
        .kernels = OG_KERNELS(prefix_sums_kernels),
    },
};
OG_MODULE(out_of_bounds_write, ops)
