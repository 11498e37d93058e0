// SPDX-License-Identifier: Apache-2.0
// The places where the sign changes, and the end.

#include <opgraft/op.h>

enum { N, K };

static og_status runs(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  int64_t count = 0;
  for (int64_t i = 1; i < n; ++i)
    if ((x[i] < 0) != (x[i - 1] < 0)) y[count++] = (float)i;
  y[count++] = (float)n;
  og_set_dim(call, K, count);
  return OG_OK;
}

static const og_kernel runs_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = runs},
};

static const og_op ops[] = {
    {
        .schema = "runs(Tensor x) -> Tensor",
#ifndef REPAIRED
        .shape = "x[N] -> [K <= N]",
#else
        .shape = "x[N] -> [K <= N + 1]",
#endif
        .kernels = OG_KERNELS(runs_kernels),
    },
};
OG_MODULE(bound_exceeded, ops)
