// SPDX-License-Identifier: Apache-2.0
// mistake: Rows may be padded (strides: last), but the kernel steps from row to row by the row length.
// expect: sum_rows x strides|contiguous|layout

#include "../../modules/operators.h"

enum { N, D };

static og_status sum_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    y[r] = sum;
  }
  return OG_OK;
}

MODULE(strides_last_rows, {.schema = "sum_rows(Tensor x) -> Tensor",
                           .shape = "x[N, D] -> [N]",
                           .strides = "last",
                           RUN("f32", sum_rows)})
