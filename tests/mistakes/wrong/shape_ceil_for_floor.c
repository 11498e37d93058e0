// SPDX-License-Identifier: Apache-2.0
// mistake: The rule rounds the window count up, the kernel rounds it down and leaves the last column unwritten.
// expect: pool - shape_rule|unwritten

#include "../../modules/operators.h"

enum { N, L };

static og_status pool(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t length = call->dim[L], size = call->attr[0].i;
  const int64_t result = (length + size - 1) / size;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    for (int64_t w = 0; w < length / size; ++w) {
      float best = -INFINITY;
      for (int64_t i = 0; i < size; ++i)
        best = fmaxf(best, x[r * length + w * size + i]);
      y[r * result + w] = best;
    }
  }
  return OG_OK;
}

MODULE(shape_ceil_for_floor, {.schema = "pool(Tensor x, int size=2) -> Tensor",
                              .shape = "x[*N, L] -> [*N, ceildiv(L, size)]",
                              .where = "size > 0",
                              RUN("f32", pool)})
