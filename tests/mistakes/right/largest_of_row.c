// SPDX-License-Identifier: Apache-2.0
// The largest element of each row, or zero: zeros behind a row do not change it
// once the row is long.

#include "../../modules/operators.h"

enum { N, D };

static og_status largest(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    y[r] = x[r * width];
    for (int64_t i = 1; i < width; ++i)
      if (x[r * width + i] > y[r]) y[r] = x[r * width + i];
  }
  return OG_OK;
}

MODULE(largest_of_row, {.schema = "largest(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N]",
                        .where = "D > 0",
                        RUN("f32", largest)})
