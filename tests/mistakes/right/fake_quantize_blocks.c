// SPDX-License-Identifier: Apache-2.0
// Each block of 32 columns on a grid of its own, the last one may be short.

#include "../../modules/operators.h"

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

EACH_ROW(fake_quantize_blocks_f32, fake_quantize_blocks_row)

MODULE(fake_quantize_blocks,
       {.schema = "fake_quantize_blocks(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        RUN("f32", fake_quantize_blocks_f32)})
