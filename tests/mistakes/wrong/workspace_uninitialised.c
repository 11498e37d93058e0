// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel adds to the workspace without having cleared it.
// expect: sum_columns - workspace|uninitialised

#include "../../modules/operators.h"

enum { R, C };

static og_status sum_columns(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  float *sum = (float *)call->workspace;
  for (int64_t r = 0; r < call->dim[R]; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c)
      sum[c] += x[r * call->dim[C] + c];
  for (int64_t c = 0; c < call->dim[C]; ++c) y[c] = sum[c];
  return OG_OK;
}

MODULE(workspace_uninitialised, {.schema = "sum_columns(Tensor x) -> Tensor",
                                 .shape = "x[R, C] -> [C]",
                                 .workspace = "C * 4",
                                 RUN("f32", sum_columns)})
