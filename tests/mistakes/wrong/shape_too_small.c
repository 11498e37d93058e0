// SPDX-License-Identifier: Apache-2.0
// mistake: The rule gives D columns, but the kernel pads each row with a zero at both ends and writes D + 2.
// expect: pad_row - shape_rule|out_of_bounds_write

#include "../../modules/operators.h"

enum { N, D };

static og_status pad_row(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float *row = y + r * (width + 2);
    row[0] = 0;
    for (int64_t i = 0; i < width; ++i) row[i + 1] = x[r * width + i];
    row[width + 1] = 0;
  }
  return OG_OK;
}

MODULE(shape_too_small, {.schema = "pad_row(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N, D]",
                         RUN("f32", pad_row)})
