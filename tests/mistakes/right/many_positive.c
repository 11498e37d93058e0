// SPDX-License-Identifier: Apache-2.0
// Whether more than ten numbers of a row are positive.

#include "../../modules/operators.h"

enum { N, D };

static og_status many_positive(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    int64_t count = 0;
    for (int64_t i = 0; i < width; ++i) count += x[r * width + i] > 0;
    y[r] = count > 10 ? 1 : 0;
  }
  return OG_OK;
}

MODULE(many_positive, {.schema = "many_positive(Tensor x) -> Tensor",
                       .shape = "x[*N, D] -> [*N]",
                       RUN("f32", many_positive)})
