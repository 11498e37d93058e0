// SPDX-License-Identifier: Apache-2.0
// mistake: The number of the row enters the result, though the pack says that no row knows its place.
// expect: rotate_rows - batch

#include "../../modules/operators.h"

enum { N, D };

static og_status rotate_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] * (float)(r + 1);
  return OG_OK;
}

MODULE(batch_row_number, {.schema = "rotate_rows(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          RUN("f32", rotate_rows)})
