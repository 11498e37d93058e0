// SPDX-License-Identifier: Apache-2.0
// A convolution with [1, 2, 3] around a ring.

#include "../../modules/operators.h"

static void conv_ring_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[(i + n - 1) % n] + 2 * x[i] + 3 * x[(i + 1) % n];
}

EACH_ROW(conv_ring_f32, conv_ring_row)

MODULE(conv_ring, {.schema = "conv_ring(Tensor x) -> Tensor",
                   .shape = "x[*N, D] -> [*N, D]",
                   .dtype = "x: f32 -> x",
                   RUN("f32", conv_ring_f32)})
