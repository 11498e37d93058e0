// SPDX-License-Identifier: Apache-2.0
// mistake: The first row is read before the row count is looked at, and an empty tensor has no memory.
// expect: shift_by_first x crash|zero_size|out_of_bounds_read

#include "../../modules/operators.h"

enum { N };

static og_status shift_by_first(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float first = *(const volatile float *)x;
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] - first;
  return OG_OK;
}

MODULE(crash_no_rows, {.schema = "shift_by_first(Tensor x) -> Tensor",
                       .shape = "x[N] -> [N]",
                       RUN("f32", shift_by_first)})
