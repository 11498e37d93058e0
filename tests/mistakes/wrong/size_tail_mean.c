// SPDX-License-Identifier: Apache-2.0
// mistake: The mean loses the columns behind the last whole block of eight.
// expect: size_tail_mean - size_dependent
//
// A row less its mean.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void size_tail_mean_row(const og_call *call, const float *x, float *y,
                               int64_t n) {
  float sum = 0;
  (void)call;
  for (int64_t b = 0; b + 8 <= n; b += 8)
    for (int64_t i = 0; i < 8; ++i) sum += x[b + i];
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - sum / (float)n;
}

static og_status size_tail_mean_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    size_tail_mean_row(call, og_f32(call->in[0]) + r * n,
                       og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel size_tail_mean_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = size_tail_mean_f32},
};

static const og_op ops[] = {
    {
        .schema = "size_tail_mean(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(size_tail_mean_kernels),
    },
};
OG_MODULE(size_tail_mean, ops)
