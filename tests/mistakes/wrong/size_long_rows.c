// SPDX-License-Identifier: Apache-2.0
// mistake: Rows of 32 columns and more are summed four at a time, without the rest.
// expect: size_long_rows - size_dependent
//
// A row times its sum.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void size_long_rows_row(const og_call *call, const float *x, float *y,
                               int64_t n) {
  float sum = 0;
  int64_t i = 0;
  (void)call;
  if (n >= 32)
    for (; i + 4 <= n; i += 4) sum += x[i] + x[i + 1] + x[i + 2] + x[i + 3];
  else
    for (; i < n; ++i) sum += x[i];
  for (i = 0; i < n; ++i) y[i] = x[i] * sum;
}

static og_status size_long_rows_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    size_long_rows_row(call, og_f32(call->in[0]) + r * n,
                       og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel size_long_rows_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = size_long_rows_f32},
};

static const og_op ops[] = {
    {
        .schema = "size_long_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(size_long_rows_kernels),
    },
};
OG_MODULE(size_long_rows, ops)
