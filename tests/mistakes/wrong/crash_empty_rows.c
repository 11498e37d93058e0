// SPDX-License-Identifier: Apache-2.0
// mistake: The work per row is found by an integer division by D, which traps where rows are empty.
// expect: count_rows - crash|zero_size

#include <opgraft/op.h>

enum { N, D };

static og_status count_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  const int64_t rows = og_numel(call->in[0]) / width;
  for (int64_t r = 0; r < rows; ++r) {
    y[r] = 0;
    for (int64_t i = 0; i < width; ++i)
      y[r] += x[r * width + i] > 0 ? 1.0f : 0.0f;
  }
  return OG_OK;
}

static const og_kernel count_rows_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = count_rows},
};

static const og_op ops[] = {
    {
        .schema = "count_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .kernels = OG_KERNELS(count_rows_kernels),
    },
};
OG_MODULE(crash_empty_rows, ops)
