// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel adds to the workspace without having cleared it.
// expect: sum_columns - workspace|uninitialised

#include <opgraft/op.h>

enum { R, C };

static og_status sum_columns(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float *sum = (float *)call->workspace;
  for (int64_t r = 0; r < call->dim[R]; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c)
      sum[c] += x[r * call->dim[C] + c];
  for (int64_t c = 0; c < call->dim[C]; ++c) y[c] = sum[c];
  return OG_OK;
}

static const og_kernel sum_columns_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sum_columns},
};

static const og_op ops[] = {
    {
        .schema = "sum_columns(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [C]",
        .workspace = "C * 4",
        .kernels = OG_KERNELS(sum_columns_kernels),
    },
};
OG_MODULE(workspace_uninitialised, ops)
