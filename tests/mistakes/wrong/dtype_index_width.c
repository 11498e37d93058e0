// SPDX-License-Identifier: Apache-2.0
// mistake: The rule says i32 positions, the kernel writes int64.
// expect: argmax - dtype_rule|out_of_bounds_write

#include "../../modules/operators.h"

enum { N, D };

static og_status argmax(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; ++i)
      if (x[r * width + i] > x[r * width + best]) best = i;
    y[r] = best;
  }
  return OG_OK;
}

MODULE(dtype_index_width, {.schema = "argmax(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N]",
                           .where = "D > 0",
                           .dtype = "x: f32 -> i32",
                           RUN(NULL, argmax)})
