// SPDX-License-Identifier: Apache-2.0
// Sums of groups of rows, whose offsets have to begin at 0 and end at the rows.

#include "../../modules/operators.h"

enum { N, D, B1 };

static og_status group_sums(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *indptr = og_i32(call->in[1]);
  const int64_t width = call->dim[D], groups = call->dim[B1] - 1;
  if (indptr[0] != 0 || indptr[groups] != call->dim[N])
    return og_fail(call, OG_INVALID, "offsets have to be those of all rows");
  for (int64_t b = 0; b < groups; ++b) {
    if (indptr[b + 1] < indptr[b] || indptr[b + 1] > call->dim[N])
      return og_fail(call, OG_INVALID, "offsets may not fall");
    for (int64_t d = 0; d < width; ++d) {
      float sum = 0;
      for (int64_t r = indptr[b]; r < indptr[b + 1]; ++r)
        sum += x[r * width + d];
      og_f32_mut(call->out[0])[b * width + d] = sum;
    }
  }
  return OG_OK;
}

MODULE(group_sums, {.schema = "group_sums(Tensor x, Tensor indptr) -> Tensor",
                    .shape = "x[N, D], indptr[B1] -> [B1 - 1, D]",
                    .where = "B1 > 0",
                    .dtype = "x: f32, indptr: i32 -> x",
                    RUN("f32", group_sums)})
