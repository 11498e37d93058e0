// SPDX-License-Identifier: Apache-2.0
// argmin_rows: where the smallest entry of each row is.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  int64_t *y = og_data(call->out[0]);
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    int64_t best = 0;
    for (int64_t i = 1; i < width; ++i)
      if (x[i] < x[best]) best = i;
    y[r] = best;
  }
}

static og_status argmin_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(argmin_rows,
       {.schema = "argmin_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32 -> i32",
        .backward = "none",
        .doc = "The first index of the smallest entry of the last axis.",
        RUN("f32", argmin_rows)})
