// SPDX-License-Identifier: Apache-2.0
// A running sum that forgets a tenth at each step.

#include "../../modules/operators.h"

static void causal_decay_row(const og_call *call, const float *x, float *y,
                             int64_t n) {
  float sum = 0;
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    sum = 0.9f * sum + x[i];
    y[i] = sum;
  }
}

EACH_ROW(causal_decay_f32, causal_decay_row)

MODULE(causal_decay, {.schema = "causal_decay(Tensor x) -> Tensor",
                      .shape = "x[*N, D] -> [*N, D]",
                      .dtype = "x: f32 -> x",
                      RUN("f32", causal_decay_f32)})
