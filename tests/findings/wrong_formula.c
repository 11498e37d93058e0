// SPDX-License-Identifier: Apache-2.0
// The cube of each element; the formula is that of the square.

#include <opgraft/op.h>

enum { N };

static og_status cube(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * x[i] * x[i];
  return OG_OK;
}

static const og_kernel cube_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = cube},
};

static const og_op ops[] = {
    {
        .schema = "cube(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
#ifndef REPAIRED
        .row = "x * x",
#else
        .row = "x * x * x",
#endif
        .kernels = OG_KERNELS(cube_kernels),
    },
};
OG_MODULE(wrong_formula, ops)
