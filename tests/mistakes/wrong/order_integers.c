// SPDX-License-Identifier: Apache-2.0
// mistake: The transposed copy of integers is written in the order of the argument.
// expect: transpose result wrong_order

#include "../../modules/operators.h"

static og_status transpose(const og_call *call) {
  const int32_t *x = og_i32(call->in[0]);
  int32_t *y = og_i32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i) y[i] = x[i];
  return OG_OK;
}

MODULE(order_integers, {.schema = "transpose(Tensor x) -> Tensor",
                        .shape = "x[R, C] -> [C, R]",
                        .dtype = "x: i32 -> x",
                        RUN("i32", transpose)})
