// SPDX-License-Identifier: Apache-2.0
// Running sums, each from the one before, which another chunk may have to
// write.

#include <opgraft/op.h>

enum { N };

static void sum_range(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] + (i > begin ? y[i - 1] : 0);
}

static og_status running_sum(const og_call *call) {
#ifndef REPAIRED
  return og_parallel_for(call, call->dim[N], 1, sum_range);
#else
  sum_range(call, 0, call->dim[N]);
  return OG_OK;
#endif
}

static const og_kernel running_sum_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = running_sum},
};

static const og_op ops[] = {
    {
        .schema = "running_sum(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(running_sum_kernels),
    },
};
OG_MODULE(chunk_order_dependent, ops)
