// SPDX-License-Identifier: Apache-2.0
// The absolute value of each element. The f64 kernel calls the function of
// int.

#ifndef REPAIRED
#include <stdlib.h>

#endif
#include <math.h>
#include <opgraft/op.h>

enum { N };

static og_status absolute_f32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = fabsf(og_f32(call->in[0])[i]);
  return OG_OK;
}

static og_status absolute_f64(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
#ifndef REPAIRED
    og_f64_mut(call->out[0])[i] = abs((int)og_f64(call->in[0])[i]);
#else
    og_f64_mut(call->out[0])[i] = fabs(og_f64(call->in[0])[i]);
#endif
  return OG_OK;
}

static const og_kernel absolute_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = absolute_f32},
    {.device = OG_CPU, .dtypes = "f64", .run = absolute_f64},
};

static const og_op ops[] = {
    {
        .schema = "absolute(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .dtype = "x: f32|f64 -> x",
        .kernels = OG_KERNELS(absolute_kernels),
    },
};
OG_MODULE(wrong_values_across_dtypes, ops)
