// SPDX-License-Identifier: Apache-2.0
// The absolute value of complex numbers of two sizes.

#include "../../modules/operators.h"

enum { N };

static og_status abs_c64(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = (float)sqrt((double)x[2 * i] * (double)x[2 * i] +
                       (double)x[2 * i + 1] * (double)x[2 * i + 1]);
  return OG_OK;
}

MODULE(complex_abs, {.schema = "complex_abs(Tensor x) -> Tensor",
                     .shape = "x[*N] -> [*N]",
                     .dtype = "x: c64 -> f32",
                     RUN(NULL, abs_c64)})
