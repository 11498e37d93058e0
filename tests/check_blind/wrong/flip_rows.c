// SPDX-License-Identifier: Apache-2.0
// flip_rows: each row from its end to its beginning.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < width; ++i)
      og_i32_mut(call->out[0])[r * width + i] =
          og_i32(call->in[0])[r * width + width - 1 - i];
}

static og_status flip_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(flip_rows, {.schema = "flip_rows(Tensor x) -> Tensor",
                   .shape = "x[*N, D] -> [*N, D]",
                   .dtype = "x: i32 -> x",
                   .inplace = "x",
                   .backward = "none",
                   .doc = "The last axis reversed.",
                   RUN("i32", flip_rows)})
