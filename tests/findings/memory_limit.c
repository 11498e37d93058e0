// SPDX-License-Identifier: Apache-2.0
// Each element squared, through a table for all 2^31 possible values.

#ifndef REPAIRED
#include <stdlib.h>

#endif
#include <opgraft/op.h>

enum { N };

static og_status square(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  float *table = malloc(sizeof(float) << 31);
  if (table == NULL) return og_fail(call, OG_MEMORY, "no memory for the table");
  for (int64_t i = 0; i < n; ++i) {
    table[i] = x[i] * x[i];
    y[i] = table[i];
  }
  free(table);
#else
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i];
#endif
  return OG_OK;
}

static const og_kernel square_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = square},
};

static const og_op ops[] = {
    {
        .schema = "square(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(square_kernels),
    },
};
OG_MODULE(memory_limit, ops)
