// SPDX-License-Identifier: Apache-2.0
// A sum of each row that stops at 3 and -3: doubling doubles it in some rows.

#include "../../modules/operators.h"

enum { N, D };

static og_status saturating_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    y[r] = fminf(fmaxf(sum, -3), 3);
  }
  return OG_OK;
}

MODULE(saturating_sum, {.schema = "saturating_sum(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N]",
                        RUN("f32", saturating_sum)})
