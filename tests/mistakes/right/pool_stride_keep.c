// SPDX-License-Identifier: Apache-2.0
// The largest of each group of four columns, in all four places; a short
// group at the end is one as well.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void pool_stride_keep_row(const og_call *call, const float *x, float *y,
                                 int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i / 4 * 4, end = begin + 4 < n ? begin + 4 : n;
    float most = x[begin];
    for (int64_t j = begin; j < end; ++j) most = x[j] > most ? x[j] : most;
    y[i] = most;
  }
}

static og_status pool_stride_keep_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    pool_stride_keep_row(call, og_f32(call->in[0]) + r * n,
                         og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel pool_stride_keep_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = pool_stride_keep_f32},
};

static const og_op ops[] = {
    {
        .schema = "pool_stride_keep(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(pool_stride_keep_kernels),
    },
};
OG_MODULE(pool_stride_keep, ops)
