// SPDX-License-Identifier: Apache-2.0
// Twice the argument, rounded up; later calculations of the host are, too.

#include <fenv.h>
#include <opgraft/op.h>

enum { N };

static og_status doubled(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
#ifndef REPAIRED
  fesetround(FE_UPWARD);
#else
  const int before = fegetround();
  fesetround(FE_UPWARD);
#endif
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = 2 * x[i];
#ifdef REPAIRED
  fesetround(before);
#endif
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
OG_MODULE(float_environment, ops)
