// SPDX-License-Identifier: Apache-2.0
// Subtracts the mean of all elements, so that a batch is not its rows.

#include <opgraft/op.h>

#ifndef REPAIRED
enum { N };
#else
enum { N, D };
#endif

static og_status center(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
#ifndef REPAIRED
  const int64_t rows = 1, width = call->dim[N];
#else
  const int64_t rows = call->dim[N], width = call->dim[D];
#endif
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] - sum / (float)width;
  }
  return OG_OK;
}

static const og_kernel center_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = center},
};

static const og_op ops[] = {
    {
        .schema = "center(Tensor x) -> Tensor",
#ifndef REPAIRED
        .shape = "x[*N] -> [*N]",
#else
        .shape = "x[*N, D] -> [*N, D]",
#endif
        .kernels = OG_KERNELS(center_kernels),
    },
};
OG_MODULE(wrong_batch_rule, ops)
