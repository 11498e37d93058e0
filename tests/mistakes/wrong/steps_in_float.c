// SPDX-License-Identifier: Apache-2.0
// mistake: Differences of 64-bit integers are taken in float.
// expect: steps - dtype|type|values

#include "../../modules/operators.h"

enum { N, D };

static og_status steps(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const int64_t *x = og_i64(call->in[0]) + r * width;
    int64_t *y = og_i64_mut(call->out[0]) + r * (width - 1);
    for (int64_t i = 0; i + 1 < width; ++i)
      y[i] = (int64_t)((float)x[i + 1] - (float)x[i]);
  }
  return OG_OK;
}

MODULE(steps_in_float, {.schema = "steps(Tensor x) -> Tensor",
                        .shape = "x[*N, D] -> [*N, D - 1]",
                        .where = "D > 0",
                        .dtype = "x: i64 -> x",
                        .backward = "none",
                        RUN("i64", steps)})
