// SPDX-License-Identifier: Apache-2.0
// Each element's share of its group's sum. Offsets are as check draws them, or
// refused: from 0, not falling, to the rows.

#include "../../modules/operators.h"

enum { N, D, B1 };

static og_status share_of_group(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *indptr = og_i32(call->in[1]);
  const int64_t width = call->dim[D], groups = call->dim[B1] - 1;
  for (int64_t b = 0; b < groups; ++b)
    if (indptr[b] > indptr[b + 1])
      return og_fail(call, OG_INVALID, "offsets may not fall");
  if (indptr[0] != 0 || (groups > 0 && indptr[groups] != call->dim[N]))
    return og_fail(call, OG_INVALID, "offsets have to be those of all rows");
  for (int64_t b = 0; b < groups; ++b)
    for (int64_t d = 0; d < width; ++d) {
      float sum = 0;
      for (int64_t r = indptr[b]; r < indptr[b + 1]; ++r)
        sum += x[r * width + d] * x[r * width + d];
      for (int64_t r = indptr[b]; r < indptr[b + 1]; ++r)
        og_f32_mut(call->out[0])[r * width + d] =
            sum > 0 ? x[r * width + d] * x[r * width + d] / sum : 0;
    }
  if (groups == 0)
    for (int64_t i = 0; i < call->dim[N] * width; ++i)
      og_f32_mut(call->out[0])[i] = 0;
  return OG_OK;
}

MODULE(share_of_group,
       {.schema = "share_of_group(Tensor x, Tensor indptr) -> Tensor",
        .shape = "x[N, D], indptr[B1] -> [N, D]",
        .where = "B1 > 0, indptr in offsets(N)",
        .dtype = "x: f32, indptr: i32 -> x",
        RUN("f32", share_of_group)})
