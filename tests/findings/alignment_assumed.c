// SPDX-License-Identifier: Apache-2.0
// Twice the argument, four elements at a time.

#include <opgraft/op.h>

enum { N };

#ifndef REPAIRED
typedef float four __attribute__((vector_size(16)));
#else
typedef float four __attribute__((vector_size(16), aligned(4)));
#endif

static og_status doubled(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    *(four *)(void *)(y + i) = 2 * *(const four *)(const void *)(x + i);
  for (; i < n; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel doubled_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = doubled},
};

static const og_op ops[] = {
    {
        .schema = "doubled(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(doubled_kernels),
    },
};
OG_MODULE(alignment_assumed, ops)
