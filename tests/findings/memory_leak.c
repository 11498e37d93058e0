// SPDX-License-Identifier: Apache-2.0
// Elements in reverse order, through a buffer that nobody frees.

#ifndef REPAIRED
#include <stdlib.h>

#endif
#include <opgraft/op.h>

enum { N };

static og_status reverse(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  float *volatile buffer = malloc((size_t)n * sizeof(float) + 1);
  if (buffer == NULL) return og_fail(call, OG_MEMORY, "no memory");
#else
  float *buffer = (float *)call->workspace;
#endif
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
#ifdef REPAIRED
        .workspace = "4 * N",
#endif
        .kernels = OG_KERNELS(reverse_kernels),
    },
};
OG_MODULE(memory_leak, ops)
