// SPDX-License-Identifier: Apache-2.0
// Pairs of elements change places; an odd last one stays.

#include <opgraft/op.h>

enum { N };

static og_status swap_pairs(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  for (int64_t i = 0; i + 1 < n; i += 2) {
    y[i] = x[i + 1];
    y[i + 1] = x[i];
  }
#ifdef REPAIRED
  if (n % 2 == 1) y[n - 1] = x[n - 1];
#endif
  return OG_OK;
}

static const og_kernel swap_pairs_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = swap_pairs},
};

static const og_op ops[] = {
    {
        .schema = "swap_pairs(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(swap_pairs_kernels),
    },
};
OG_MODULE(output_not_written, ops)
