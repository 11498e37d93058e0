// SPDX-License-Identifier: Apache-2.0
// mistake: The last group of rows is left out.
// expect: scale_groups - unwritten
//
// Each row by its group's number.

#include "../../modules/operators.h"

enum { N, D, B1 };

static og_status scale_groups(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *indptr = og_i32(call->in[1]);
  const int64_t width = call->dim[D], groups = call->dim[B1] - 1;
  for (int64_t b = 0; b + 1 < groups; ++b)
    for (int64_t i = indptr[b] * width; i < indptr[b + 1] * width; ++i)
      og_f32_mut(call->out[0])[i] = x[i] * (float)(b + 1);
  return OG_OK;
}

MODULE(offsets_last_group,
       {.schema = "scale_groups(Tensor x, Tensor indptr) -> Tensor",
        .shape = "x[N, D], indptr[B1] -> [N, D]",
        .where = "B1 > 0, indptr in offsets(N)",
        .dtype = "x: f32, indptr: i32 -> x",
        RUN("f32", scale_groups)})
