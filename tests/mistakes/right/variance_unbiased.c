// SPDX-License-Identifier: Apache-2.0
// The unbiased variance of each row: with every element twice it is another
// one.

#include "../../modules/operators.h"

enum { N, D };

static og_status variance(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    const double mean = sum / (double)width;
    for (int64_t i = 0; i < width; ++i) {
      const double d = x[r * width + i] - mean;
      squares += d * d;
    }
    y[r] = (float)(squares / (double)(width - 1));
  }
  return OG_OK;
}

MODULE(variance_unbiased, {.schema = "variance(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N]",
                           .where = "D > 1",
                           RUN("f32", variance)})
