// SPDX-License-Identifier: Apache-2.0
// mistake: Offsets are used as they come; others touch foreign memory.
// expect: scale_groups - unchecked_index|index
//
// Each row by its group's number.

#include "../../modules/operators.h"

enum { N, D, B1 };

static og_status scale_groups(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *indptr = og_i32(call->in[1]);
  const int64_t width = call->dim[D], groups = call->dim[B1] - 1;
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    og_f32_mut(call->out[0])[i] = 0;
  for (int64_t b = 0; b < groups; ++b)
    for (int64_t i = indptr[b] * width; i < indptr[b + 1] * width; ++i)
      og_f32_mut(call->out[0])[i] = x[i] * (float)(b + 1);
  return OG_OK;
}

MODULE(offsets_unchecked,
       {.schema = "scale_groups(Tensor x, Tensor indptr) -> Tensor",
        .shape = "x[N, D], indptr[B1] -> [N, D]",
        .where = "B1 > 0, indptr in offsets(N)",
        .dtype = "x: f32, indptr: i32 -> x",
        RUN("f32", scale_groups)})
