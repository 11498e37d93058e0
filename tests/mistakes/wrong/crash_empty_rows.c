// SPDX-License-Identifier: Apache-2.0
// mistake: The work per row is found by an integer division by D, which traps where rows are empty.
// expect: count_rows - crash|zero_size

#include "../../modules/operators.h"

enum { N, D };

static og_status count_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  const int64_t rows = og_numel(call->in[0]) / width;
  for (int64_t r = 0; r < rows; ++r) {
    y[r] = 0;
    for (int64_t i = 0; i < width; ++i)
      y[r] += x[r * width + i] > 0 ? 1.0f : 0.0f;
  }
  return OG_OK;
}

MODULE(crash_empty_rows, {.schema = "count_rows(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N]",
                          RUN("f32", count_rows)})
