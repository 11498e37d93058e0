// SPDX-License-Identifier: Apache-2.0
// Elements in reverse order, in the memory of the argument.

#include <opgraft/op.h>

enum { N };

static og_status reverse(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  for (int64_t i = 0; i < n; ++i) y[i] = x[n - 1 - i];
#else
  for (int64_t i = 0, j = n - 1; i <= j; ++i, --j) {
    const float held = x[i];
    y[i] = x[j];
    y[j] = held;
  }
#endif
  return OG_OK;
}

static const og_kernel reverse_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = reverse},
};

static const og_op ops[] = {
    {
        .schema = "reverse(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .inplace = "x",
        .kernels = OG_KERNELS(reverse_kernels),
    },
};
OG_MODULE(wrong_in_place, ops)
