// SPDX-License-Identifier: Apache-2.0
// mistake: The rule says bool, one byte each, and the kernel writes int32.
// expect: positive - dtype_rule|out_of_bounds_write

#include "../../modules/operators.h"

enum { N };

static og_status positive(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int32_t *y = (int32_t *)og_data(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] > 0;
  return OG_OK;
}

MODULE(dtype_bool_as_int, {.schema = "positive(Tensor x) -> Tensor",
                           .shape = "x[*N] -> [*N]",
                           .dtype = "x: f32 -> bool",
                           RUN(NULL, positive)})
