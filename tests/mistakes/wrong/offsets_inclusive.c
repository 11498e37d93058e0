// SPDX-License-Identifier: Apache-2.0
// mistake: A group is taken to hold the row that its end names.
// expect: group_peaks - out_of_bounds_read|bounds
//
// The largest element of each group of rows.

#include "../../modules/operators.h"

enum { N, D, B1 };

static og_status group_peaks(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *indptr = og_i32(call->in[1]);
  const int64_t width = call->dim[D], groups = call->dim[B1] - 1;
  for (int64_t b = 0; b < groups; ++b)
    for (int64_t d = 0; d < width; ++d) {
      float most = -3e38f;
      for (int64_t r = indptr[b]; r <= indptr[b + 1]; ++r)
        if (x[r * width + d] > most) most = x[r * width + d];
      og_f32_mut(call->out[0])[b * width + d] = most;
    }
  return OG_OK;
}

MODULE(offsets_inclusive,
       {.schema = "group_peaks(Tensor x, Tensor indptr) -> Tensor",
        .shape = "x[N, D], indptr[B1] -> [B1 - 1, D]",
        .where = "B1 > 0",
        .dtype = "x: f32, indptr: i32 -> x",
        RUN("f32", group_peaks)})
