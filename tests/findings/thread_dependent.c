// SPDX-License-Identifier: Apache-2.0
// A sum in as many parts as there are threads: the rounding differs.

#include <opgraft/op.h>

enum { N };

static og_status sum_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  const int64_t parts = call->threads;
#else
  const int64_t parts = 8;
#endif
  y[0] = 0;
  for (int64_t p = 0; p < parts; ++p) {
    float part = 0;
    for (int64_t i = p; i < n; i += parts) part += x[i];
    y[0] += part;
  }
  return OG_OK;
}

static const og_kernel sum_all_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sum_all},
};

static const og_op ops[] = {
    {
        .schema = "sum_all(Tensor x) -> Tensor",
        .shape = "x[N] -> []",
        .flags = OG_DETERMINISTIC,
        .kernels = OG_KERNELS(sum_all_kernels),
    },
};
OG_MODULE(thread_dependent, ops)
