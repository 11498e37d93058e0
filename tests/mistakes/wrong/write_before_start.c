// SPDX-License-Identifier: Apache-2.0
// mistake: A sentinel is written before the first element of the result.
// expect: cummax - out_of_bounds_write|write

#include "../../modules/operators.h"

enum { D };

static og_status cummax(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  y[-1] = -INFINITY;
  for (int64_t i = 0; i < call->dim[D]; ++i) y[i] = fmaxf(x[i], y[i - 1]);
  return OG_OK;
}

MODULE(write_before_start, {.schema = "cummax(Tensor x) -> Tensor",
                            .shape = "x[D] -> [D]",
                            RUN("f32", cummax)})
