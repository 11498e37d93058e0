// SPDX-License-Identifier: Apache-2.0
// mistake: The count is rounded up to a multiple of four, so that up to three elements behind the result are written.
// expect: copy - out_of_bounds_write|write

#include "../../modules/operators.h"

enum { N };

static og_status copy(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  for (int64_t i = 0; i < (count + 3) / 4 * 4; ++i) y[i] = i < count ? x[i] : 0;
  return OG_OK;
}

MODULE(write_after_end, {.schema = "copy(Tensor x) -> Tensor",
                         .shape = "x[*N] -> [*N]",
                         RUN("f32", copy)})
