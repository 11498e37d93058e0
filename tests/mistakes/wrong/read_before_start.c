// SPDX-License-Identifier: Apache-2.0
// mistake: The stencil reads one element before the first.
// expect: backward_diff x out_of_bounds_read|read

#include "../../modules/operators.h"

enum { D };

static og_status backward_diff(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[D]; ++i) y[i] = x[i] - x[i - 1];
  return OG_OK;
}

MODULE(read_before_start, {.schema = "backward_diff(Tensor x) -> Tensor",
                           .shape = "x[D] -> [D]",
                           RUN("f32", backward_diff)})
