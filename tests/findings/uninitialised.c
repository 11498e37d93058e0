// SPDX-License-Identifier: Apache-2.0
// The sum of all elements, which begins with what the stack held.

#include <opgraft/op.h>

enum { N };

__attribute__((noinline)) static void add_all(float sum[4], const float *x,
                                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i % 4] += x[i];
}

static og_status sum_all(const og_call *call) {
#ifndef REPAIRED
  float sum[4];
#else
  float sum[4] = {0, 0, 0, 0};
#endif
  add_all(sum, og_f32(call->in[0]), call->dim[N]);
  og_f32_mut(call->out[0])[0] = sum[0] + sum[1] + sum[2] + sum[3];
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
OG_MODULE(uninitialised, ops)
