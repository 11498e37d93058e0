// SPDX-License-Identifier: Apache-2.0
// The mean of a row up to each column.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void causal_mean_row(const og_call *call, const float *x, float *y,
                            int64_t n) {
  float sum = 0;
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i];
    y[i] = sum / (float)(i + 1);
  }
}

static og_status causal_mean_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    causal_mean_row(call, og_f32(call->in[0]) + r * n,
                    og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel causal_mean_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = causal_mean_f32},
};

static const og_op ops[] = {
    {
        .schema = "causal_mean(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(causal_mean_kernels),
    },
};
OG_MODULE(causal_mean, ops)
