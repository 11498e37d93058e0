// SPDX-License-Identifier: Apache-2.0
// mistake: The variance is divided by the length less one.
// expect: reference_unbiased - differs_from_reference
//
// A row less its mean, over its standard deviation.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void reference_unbiased_row(const og_call *call, const float *x,
                                   float *y, int64_t n) {
  float mean = 0, square = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[i] / (float)n;
  for (int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const float scale =
      1 / sqrtf(square / (float)(n - 1) + (float)call->attr[0].f);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
}

static og_status reference_unbiased_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    reference_unbiased_row(call, og_f32(call->in[0]) + r * n,
                           og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel reference_unbiased_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = reference_unbiased_f32},
};

static const og_op ops[] = {
    {
        .schema = "reference_unbiased(Tensor x, float eps=1e-5) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 1",
        .dtype = "x: f32 -> x",
        .reference = "(x - mean(x, D)) * rsqrt(mean(x * x, D) - mean(x, D) * "
                     "mean(x, D) + eps)",
        .kernels = OG_KERNELS(reference_unbiased_kernels),
    },
};
OG_MODULE(reference_unbiased, ops)
