// SPDX-License-Identifier: Apache-2.0
// The bucket that the sum of squares is in; all large sums are in the last.

#include <opgraft/op.h>

enum { N };

static og_status energy_bucket(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float sum = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum += x[i] * x[i];
  const int32_t bucket = sum < 80 ? (int32_t)(sum / 10) : 7;
  *og_i32_mut(call->out[0]) = bucket;
  return OG_OK;
}

static const og_kernel energy_bucket_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = energy_bucket},
};

static const og_op ops[] = {
    {
        .schema = "energy_bucket(Tensor x) -> Tensor",
        .shape = "x[N] -> []",
        .dtype = "x: f32 -> i32",
        .kernels = OG_KERNELS(energy_bucket_kernels),
    },
};
OG_MODULE(energy_bucket, ops)
