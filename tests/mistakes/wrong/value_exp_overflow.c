// SPDX-License-Identifier: Apache-2.0
// mistake: The largest number of a row is not subtracted before exp(), so that rows with large numbers give NaN.
// expect: softmax - not_finite

#include "../../modules/operators.h"

enum { N, D };

static og_status softmax(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += expf(x[r * width + i]);
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = expf(x[r * width + i]) / sum;
  }
  return OG_OK;
}

MODULE(value_exp_overflow, {.schema = "softmax(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N, D]",
                            RUN("f32", softmax)})
