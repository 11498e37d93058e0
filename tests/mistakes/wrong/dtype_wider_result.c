// SPDX-License-Identifier: Apache-2.0
// mistake: The rule promises f64, the kernel writes f32 into the first half of the result.
// expect: sum_rows - dtype_rule|unwritten

#include "../../modules/operators.h"

enum { N, D };

static og_status sum_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += (double)x[r * width + i];
    y[r] = (float)sum;
  }
  return OG_OK;
}

MODULE(dtype_wider_result, {.schema = "sum_rows(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N]",
                            .dtype = "x: f32 -> f64",
                            RUN(NULL, sum_rows)})
