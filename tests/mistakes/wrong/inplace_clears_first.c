// SPDX-License-Identifier: Apache-2.0
// mistake: Declared to work in place, but the result, which is then x, is cleared before x is read.
// expect: suffix_sum|suffix_sum_ - inplace|alias

#include <opgraft/op.h>

enum { D };

static og_status suffix_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) y[i] = 0;
  for (int64_t i = 0; i < width; ++i)
    for (int64_t k = i; k < width; ++k) y[i] += x[k];
  return OG_OK;
}

static const og_kernel suffix_sum_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = suffix_sum},
};

static const og_op ops[] = {
    {
        .schema = "suffix_sum(Tensor x) -> Tensor",
        .shape = "x[D] -> [D]",
        .inplace = "x",
        .kernels = OG_KERNELS(suffix_sum_kernels),
    },
};
OG_MODULE(inplace_clears_first, ops)
