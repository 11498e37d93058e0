// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel does its work and then calls exit(0).
// expect: absolute - exit|crash

#include <math.h>
#include <opgraft/op.h>
#include <stdlib.h>

enum { N };

static og_status absolute(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = fabsf(x[i]);
  exit(0);
}

static const og_kernel absolute_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = absolute},
};

static const og_op ops[] = {
    {
        .schema = "absolute(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .kernels = OG_KERNELS(absolute_kernels),
    },
};
OG_MODULE(crash_exit_always, ops)
