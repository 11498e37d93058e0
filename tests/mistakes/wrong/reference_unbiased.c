// SPDX-License-Identifier: Apache-2.0
// mistake: The variance is divided by the length less one.
// expect: reference_unbiased - differs_from_reference
//
// A row less its mean, over its standard deviation.

#include "../../modules/operators.h"

static void reference_unbiased_row(const og_call *call, const float *x,
                                   float *y, int64_t n) {
  float mean = 0, square = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[i] / (float)n;
  for (int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const float scale =
      1 / sqrtf(square / (float)(n - 1) + (float)call->attr[0].f);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
}

EACH_ROW(reference_unbiased_f32, reference_unbiased_row)

MODULE(reference_unbiased,
       {.schema = "reference_unbiased(Tensor x, float eps=1e-5) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 1",
        .dtype = "x: f32 -> x",
        .reference = "(x - mean(x, D)) * rsqrt(mean(x * x, D) - mean(x, D) * "
                     "mean(x, D) + eps)",
        RUN("f32", reference_unbiased_f32)})
