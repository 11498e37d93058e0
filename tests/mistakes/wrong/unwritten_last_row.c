// SPDX-License-Identifier: Apache-2.0
// mistake: The loop over rows ends one row early.
// expect: exp_rows - unwritten

#include "../../modules/operators.h"

enum { N, D };

static og_status exp_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N] - 1; ++r)
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = expf(x[r * width + i]);
  return OG_OK;
}

MODULE(unwritten_last_row, {.schema = "exp_rows(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N, D]",
                            RUN("f32", exp_rows)})
