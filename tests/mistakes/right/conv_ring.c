// SPDX-License-Identifier: Apache-2.0
// A convolution with [1, 2, 3] around a ring.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void conv_ring_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[(i + n - 1) % n] + 2 * x[i] + 3 * x[(i + 1) % n];
}

static og_status conv_ring_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    conv_ring_row(call, og_f32(call->in[0]) + r * n,
                  og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel conv_ring_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = conv_ring_f32},
};

static const og_op ops[] = {
    {
        .schema = "conv_ring(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(conv_ring_kernels),
    },
};
OG_MODULE(conv_ring, ops)
