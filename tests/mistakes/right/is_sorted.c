// SPDX-License-Identifier: Apache-2.0
// Whether each row is in order: false of nearly every long one.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status is_sorted_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  uint8_t *y = og_bool_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width) {
    y[r] = 1;
    for (int64_t i = 1; i < width; ++i)
      if (x[i] < x[i - 1]) y[r] = 0;
  }
  return OG_OK;
}

MODULE(is_sorted, {.schema = "is_sorted(Tensor x) -> Tensor",
                   .shape = "x[*N, D] -> [*N]",
                   .dtype = "x: f32 -> bool",
                   .backward = "none",
                   RUN("f32", is_sorted_f32)})
