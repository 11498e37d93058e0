// SPDX-License-Identifier: Apache-2.0
// mistake: The i64 path is the i32 path, which reads half of the elements, each as two.
// expect: increment - dtype|type|i64|unwritten|value

#include "../../modules/operators.h"

enum { N };

static og_status increment_i32(const og_call *call) {
  const int32_t *x = og_i32(call->in[0]);
  int32_t *y = og_i32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = (int32_t)((uint32_t)x[i] + 1);
  return OG_OK;
}

MODULE(type_long_as_int, {.schema = "increment(Tensor x) -> Tensor",
                          .shape = "x[*N] -> [*N]",
                          .dtype = "x: i32|i64 -> x",
                          RUN("i32|i64", increment_i32)})
