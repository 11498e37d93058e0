// SPDX-License-Identifier: Apache-2.0
// The mean of each row. The kernel forgets to divide, the reference does
// not.

#include <opgraft/op.h>

enum { N, D };

static og_status row_mean(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
#ifndef REPAIRED
    y[r] = sum;
#else
    y[r] = sum / (float)width;
#endif
  }
  return OG_OK;
}

static const og_kernel row_mean_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = row_mean},
};

static const og_op ops[] = {
    {
        .schema = "row_mean(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .reference = "mean(x, D)",
        .kernels = OG_KERNELS(row_mean_kernels),
    },
};
OG_MODULE(differs_from_reference, ops)
