// SPDX-License-Identifier: Apache-2.0
// cummax_index: the largest entry so far and where it is.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const int32_t *x = og_i32(call->in[0]) + r * width;
    int64_t best = 0;
    for (int64_t i = 0; i < width; ++i) {
      if (x[i] >= x[best]) best = i;
      og_i32_mut(call->out[0])[r * width + i] = x[best];
      og_i64_mut(call->out[1])[r * width + i] = best;
    }
  }
}

static og_status cummax_index(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(cummax_index,
       {.schema = "cummax_index(Tensor x) -> (Tensor value, Tensor index)",
        .shape = "x[*N, D] -> [*N, D], [*N, D]",
        .dtype = "x: i32 -> x, i64",
        .backward = "none",
        .doc = "The running maximum of the last axis and the last index that "
               "holds it.",
        RUN("i32", cummax_index)})
