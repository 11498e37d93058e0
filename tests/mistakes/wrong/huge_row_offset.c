// SPDX-License-Identifier: Apache-2.0
// mistake: Where a row begins is kept in 32 bits, and becomes negative.
// expect: huge_row_offset - out_of_bounds_read|out_of_bounds_write
// run: --probe huge
//
// The elements of each row in the reverse order.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status huge_row_offset_i8(const og_call *call) {
  const int8_t *x = og_data(call->in[0]);
  int8_t *y = og_data(call->out[0]);
  const int64_t n = call->dim[N], d = call->dim[D];
  for (int64_t r = 0; r < n; ++r) {
    const int32_t begin = (int32_t)(r * d);
    for (int64_t i = 0; i < d; ++i) y[begin + i] = x[begin + d - 1 - i];
  }
  return OG_OK;
}

MODULE(huge_row_offset, {.schema = "huge_row_offset(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N, D]",
                         .dtype = "x: i8 -> x",
                         RUN("i8", huge_row_offset_i8)})
