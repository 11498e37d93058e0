// SPDX-License-Identifier: Apache-2.0
// The mean of a window of three, which ends at the borders.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void pool_same_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i > 0 ? i - 1 : 0, end = i + 2 < n ? i + 2 : n;
    float sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += x[j];
    y[i] = sum / (float)(end - begin);
  }
}

static og_status pool_same_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    pool_same_row(call, og_f32(call->in[0]) + r * n,
                  og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel pool_same_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = pool_same_f32},
};

static const og_op ops[] = {
    {
        .schema = "pool_same(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(pool_same_kernels),
    },
};
OG_MODULE(pool_same, ops)
