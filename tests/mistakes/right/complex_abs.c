// SPDX-License-Identifier: Apache-2.0
// The absolute value of complex numbers of two sizes.

#include <math.h>
#include <opgraft/op.h>

enum { N };

static og_status abs_c64(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = (float)sqrt((double)x[2 * i] * (double)x[2 * i] +
                       (double)x[2 * i + 1] * (double)x[2 * i + 1]);
  return OG_OK;
}

static const og_kernel complex_abs_kernels[] = {
    {.device = OG_CPU, .run = abs_c64},
};

static const og_op ops[] = {
    {
        .schema = "complex_abs(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: c64 -> f32",
        .kernels = OG_KERNELS(complex_abs_kernels),
    },
};
OG_MODULE(complex_abs, ops)
