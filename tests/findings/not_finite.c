// SPDX-License-Identifier: Apache-2.0
// The mean of what a mask lets through: 0 / 0 where that is nothing.

#include <opgraft/op.h>

enum { N, D };

static og_status masked_mean(const og_call *call) {
  const uint8_t *mask = og_bool(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0, count = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      if (mask[i]) sum += x[i], ++count;
#ifndef REPAIRED
    y[r] = sum / count;
#else
    y[r] = count > 0 ? sum / count : 0;
#endif
  }
  return OG_OK;
}

static const og_kernel masked_mean_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = masked_mean},
};

static const og_op ops[] = {
    {
        .schema = "masked_mean(Tensor x, Tensor mask) -> Tensor",
        .shape = "x[N, D], mask[N, D] -> [N]",
        .dtype = "x: f32, mask: bool -> x",
        .kernels = OG_KERNELS(masked_mean_kernels),
    },
};
OG_MODULE(not_finite, ops)
