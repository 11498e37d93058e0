// SPDX-License-Identifier: Apache-2.0
// The sum of each row, added to what the result held before.

#include <opgraft/op.h>

enum { N, D };

static og_status row_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
#ifdef REPAIRED
    y[r] = 0;
#endif
    for (int64_t i = 0; i < width; ++i) y[r] += x[r * width + i];
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
OG_MODULE(output_read, ops)
