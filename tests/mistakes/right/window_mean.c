// SPDX-License-Identifier: Apache-2.0
// The mean of the last `window` columns.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void window_mean_row(const og_call *call, const float *x, float *y,
                            int64_t n) {
  const int64_t window = call->attr[0].i;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = i + 1 > window ? i + 1 - window : 0;
    float sum = 0;
    for (int64_t j = begin; j <= i; ++j) sum += x[j];
    y[i] = sum / (float)(i + 1 - begin);
  }
}

static og_status window_mean_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    window_mean_row(call, og_f32(call->in[0]) + r * n,
                    og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel window_mean_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = window_mean_f32},
};

static const og_op ops[] = {
    {
        .schema = "window_mean(Tensor x, int window=4) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "window > 0",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(window_mean_kernels),
    },
};
OG_MODULE(window_mean, ops)
