// SPDX-License-Identifier: Apache-2.0
// mistake: The loop over rows ends one row early.
// expect: exp_rows - unwritten

#include <math.h>
#include <opgraft/op.h>

enum { N, D };

static og_status exp_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N] - 1; ++r)
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = expf(x[r * width + i]);
  return OG_OK;
}

static const og_kernel exp_rows_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = exp_rows},
};

static const og_op ops[] = {
    {
        .schema = "exp_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .kernels = OG_KERNELS(exp_rows_kernels),
    },
};
OG_MODULE(unwritten_last_row, ops)
