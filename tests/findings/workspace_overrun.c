// SPDX-License-Identifier: Apache-2.0
// Elements in reverse order, through the workspace; the rule counts
// elements, not bytes.

#include <opgraft/op.h>

enum { N };

static og_status reverse(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  float *buffer = (float *)call->workspace;
  for (int64_t i = 0; i < n; ++i) buffer[i] = x[i];
  for (int64_t i = 0; i < n; ++i) y[i] = buffer[n - 1 - i];
  return OG_OK;
}

static const og_kernel reverse_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = reverse},
};

static const og_op ops[] = {
    {
        .schema = "reverse(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
#ifndef REPAIRED
        .workspace = "N",
#else
        .workspace = "4 * N",
#endif
        .kernels = OG_KERNELS(reverse_kernels),
    },
};
OG_MODULE(workspace_overrun, ops)
