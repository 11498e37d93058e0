// SPDX-License-Identifier: Apache-2.0
// The sum of each row, four elements at a time; of long rows the rest is
// lost.

#include <opgraft/op.h>

enum { N, D };

static og_status row_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width) {
    float sum = 0;
    int64_t i = 0;
    for (; i + 4 <= width; i += 4) sum += x[i] + x[i + 1] + x[i + 2] + x[i + 3];
#ifndef REPAIRED
    for (; width < 8 && i < width; ++i) sum += x[i];
#else
    for (; i < width; ++i) sum += x[i];
#endif
    y[r] = sum;
  }
  return OG_OK;
}

static const og_kernel row_sums_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = row_sums},
};

static const og_op ops[] = {
    {
        .schema = "row_sums(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .kernels = OG_KERNELS(row_sums_kernels),
    },
};
OG_MODULE(size_dependent, ops)
