// SPDX-License-Identifier: Apache-2.0
// The sum of each row, of rows of 96 elements only.

#include <opgraft/op.h>

enum { N, D };

static og_status row_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  if (call->dim[D] != 96) return og_fail(call, OG_SHAPE, "rows are 96 long");
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < 96; ++i) sum += x[r * 96 + i];
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
#ifdef REPAIRED
        .where = "D == 96",
#endif
        .kernels = OG_KERNELS(row_sums_kernels),
    },
};
OG_MODULE(never_ran, ops)
