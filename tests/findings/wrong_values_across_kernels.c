// SPDX-License-Identifier: Apache-2.0
// Rectified elements: a kernel for even sizes, which takes two at a time, and
// one for all.

#include <opgraft/op.h>

enum { N };

static int32_t is_even(const og_call *call) { return call->dim[N] % 2 == 0; }

static og_status relu_pairs(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; i += 2) {
    y[i] = x[i] > 0 ? x[i] : 0;
#ifndef REPAIRED
    y[i + 1] = x[i] > 0 ? x[i + 1] : 0;
#else
    y[i + 1] = x[i + 1] > 0 ? x[i + 1] : 0;
#endif
  }
  return OG_OK;
}

static og_status relu(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return OG_OK;
}

static const og_kernel relu_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .supports = is_even, .run = relu_pairs},
    {.device = OG_CPU, .dtypes = "f32", .run = relu},
};

static const og_op ops[] = {
    {
        .schema = "relu(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
        .kernels = OG_KERNELS(relu_kernels),
    },
};
OG_MODULE(wrong_values_across_kernels, ops)
