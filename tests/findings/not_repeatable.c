// SPDX-License-Identifier: Apache-2.0
// Adds noise from a seed that moves on with each call.

#include <opgraft/op.h>

enum { N };

static og_status add_noise(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  static uint32_t seed = 1;
#else
  uint32_t seed = (uint32_t)call->attr[0].i;
#endif
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    y[i] = x[i] + (float)(seed >> 8) * 0x1p-24f;
  }
  return OG_OK;
}

static const og_kernel add_noise_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_noise},
};

static const og_op ops[] = {
    {
        .schema = "add_noise(Tensor x, int seed) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(add_noise_kernels),
    },
};
OG_MODULE(not_repeatable, ops)
