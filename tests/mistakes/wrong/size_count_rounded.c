// SPDX-License-Identifier: Apache-2.0
// mistake: The mean of each row is divided by the count of whole blocks of 4, as if the rest had no elements, though it is summed.
// expect: row_mean - size_dependent

#include "../../modules/operators.h"

enum { N, D };

static og_status row_mean(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  const int64_t count = width < 4 ? width : width / 4 * 4;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    y[r] = sum / (float)count;
  }
  return OG_OK;
}

MODULE(size_count_rounded, {.schema = "row_mean(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N]",
                            .where = "D > 0",
                            RUN("f32", row_mean)})
