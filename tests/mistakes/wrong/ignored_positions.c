// SPDX-License-Identifier: Apache-2.0
// mistake: Of the positions that are given only the first is used; the others are taken to follow it.
// expect: add_positions position unused_end

#include "../../modules/operators.h"

enum { N };

static og_status add_positions(const og_call *call) {
  const int64_t *position = og_i64(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] + (float)(position[0] + i);
  return OG_OK;
}

MODULE(ignored_positions,
       {.schema = "add_positions(Tensor x, Tensor position) -> Tensor",
        .shape = "x[N], position[N] -> [N]",
        .dtype = "x: f32, position: i64 -> x",
        RUN("f32", add_positions)})
