// SPDX-License-Identifier: Apache-2.0
// How often each of 16 values occurs, counted in the workspace.

#include <opgraft/op.h>

enum { N };

static og_status histogram(const og_call *call) {
  const uint8_t *x = og_u8(call->in[0]);
  int32_t *count = (int32_t *)call->workspace;
#ifdef REPAIRED
  for (int32_t v = 0; v < 16; ++v) count[v] = 0;
#endif
  for (int64_t i = 0; i < call->dim[N]; ++i) ++count[x[i] % 16];
  for (int32_t v = 0; v < 16; ++v) og_i32_mut(call->out[0])[v] = count[v];
  return OG_OK;
}

static const og_kernel histogram_kernels[] = {
    {.device = OG_CPU, .dtypes = "u8", .run = histogram},
};

static const og_op ops[] = {
    {
        .schema = "histogram(Tensor x) -> Tensor",
        .shape = "x[N] -> [16]",
        .dtype = "x: u8 -> i32",
        .workspace = "4 * 16",
        .kernels = OG_KERNELS(histogram_kernels),
    },
};
OG_MODULE(workspace_uninitialised, ops)
