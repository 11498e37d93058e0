// SPDX-License-Identifier: Apache-2.0
// Elements of a table, whose address is kept for later calls.

#include <opgraft/op.h>

enum { N };

static og_status look_up(const og_call *call) {
  const int64_t n = call->dim[N];
  float *y = og_f32_mut(call->out[0]);
#ifndef REPAIRED
  static const float *table;
  if (table == NULL) table = og_f32(call->in[0]);
#else
  const float *table = og_f32(call->in[0]);
#endif
  for (int64_t i = 0; i < n; ++i) y[i] = table[n - 1 - i];
  return OG_OK;
}

static const og_kernel look_up_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = look_up},
};

static const og_op ops[] = {
    {
        .schema = "look_up(Tensor table) -> Tensor",
        .shape = "table[N] -> [N]",
        .kernels = OG_KERNELS(look_up_kernels),
    },
};
OG_MODULE(kept_pointer, ops)
