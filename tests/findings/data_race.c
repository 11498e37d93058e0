// SPDX-License-Identifier: Apache-2.0
// Sums of the elements of each column, rows shared out: all chunks add to
// the same sums.

#include <opgraft/op.h>

enum { R, C };

static void add_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t columns = call->dim[C];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < columns; ++c) y[c] += x[r * columns + c];
}

static og_status column_sums(const og_call *call) {
  const int64_t rows = call->dim[R], columns = call->dim[C];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t c = 0; c < columns; ++c) y[c] = 0;
#ifndef REPAIRED
  return og_parallel_for(call, rows, 1, add_rows);
#else
  add_rows(call, 0, rows);
  return OG_OK;
#endif
}

static const og_kernel column_sums_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = column_sums},
};

static const og_op ops[] = {
    {
        .schema = "column_sums(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [C]",
        .kernels = OG_KERNELS(column_sums_kernels),
    },
};
OG_MODULE(data_race, ops)
