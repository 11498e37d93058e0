// SPDX-License-Identifier: Apache-2.0
// run: --probe huge
//
// The sum of each row, and the largest of all sums: offsets have 64 bits. The
// second result has no place of the large dim.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status huge_rows_i8(const og_call *call) {
  const int8_t *x = og_data(call->in[0]);
  int32_t *sums = og_data(call->out[0]), *largest = og_data(call->out[1]);
  const int64_t n = call->dim[N], d = call->dim[D];
  *largest = INT32_MIN;
  for (int64_t r = 0; r < n; ++r) {
    int32_t sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += x[r * d + i];
    sums[r] = sum;
    if (sum > *largest) *largest = sum;
  }
  return OG_OK;
}

MODULE(huge_rows,
       {.schema = "huge_rows(Tensor x) -> (Tensor sums, Tensor largest)",
        .shape = "x[N, D] -> [N], []",
        .dtype = "x: i8 -> i32, i32",
        RUN("i8", huge_rows_i8)})
