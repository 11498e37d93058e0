// SPDX-License-Identifier: Apache-2.0
// The sum of all elements but the last.

#include <opgraft/op.h>

enum { N };

static og_status sum_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  float sum = 0;
#ifndef REPAIRED
  for (int64_t i = 0; i < n - 1; ++i) sum += x[i];
#else
  for (int64_t i = 0; i < n; ++i) sum += x[i];
#endif
  y[0] = sum;
  return OG_OK;
}

static const og_kernel sum_all_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sum_all},
};

static const og_op ops[] = {
    {
        .schema = "sum_all(Tensor x) -> Tensor",
        .shape = "x[N] -> []",
        .kernels = OG_KERNELS(sum_all_kernels),
    },
};
OG_MODULE(unused_end, ops)
