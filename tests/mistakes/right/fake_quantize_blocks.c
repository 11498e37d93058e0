// SPDX-License-Identifier: Apache-2.0
// Each block of 32 columns on a grid of its own, the last one may be short.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void fake_quantize_blocks_row(const og_call *call, const float *x,
                                     float *y, int64_t n) {
  (void)call;
  for (int64_t b = 0; b < n; b += 32) {
    const int64_t end = b + 32 < n ? b + 32 : n;
    float most = 0;
    for (int64_t i = b; i < end; ++i)
      if (fabsf(x[i]) > most) most = fabsf(x[i]);
    const float step = most / 127;
    for (int64_t i = b; i < end; ++i)
      y[i] = step > 0 ? roundf(x[i] / step) * step : 0;
  }
}

static og_status fake_quantize_blocks_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    fake_quantize_blocks_row(call, og_f32(call->in[0]) + r * n,
                             og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel fake_quantize_blocks_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = fake_quantize_blocks_f32},
};

static const og_op ops[] = {
    {
        .schema = "fake_quantize_blocks(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(fake_quantize_blocks_kernels),
    },
};
OG_MODULE(fake_quantize_blocks, ops)
