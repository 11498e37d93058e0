// SPDX-License-Identifier: Apache-2.0
// mistake: The loop is shared out by rows, but every row adds to the same column sums.
// expect: sum_columns - race|chunk|threads

#include <opgraft/op.h>

enum { R, C };

static void column_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c) y[c] += x[r * call->dim[C] + c];
}

static og_status sum_columns(const og_call *call) {
  for (int64_t c = 0; c < call->dim[C]; ++c) og_f32_mut(call->out[0])[c] = 0;
  return og_parallel_for(call, call->dim[R], 1, column_share);
}

static const og_kernel sum_columns_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sum_columns},
};

static const og_op ops[] = {
    {
        .schema = "sum_columns(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [C]",
        .kernels = OG_KERNELS(sum_columns_kernels),
    },
};
OG_MODULE(race_columns, ops)
