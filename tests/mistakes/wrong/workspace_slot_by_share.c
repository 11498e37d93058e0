// SPDX-License-Identifier: Apache-2.0
// mistake: The slot of the workspace is the number of the share (begin / grain) instead of the worker; there may be more shares than workers.
// expect: norm_rows - workspace|race

#include "../../modules/operators.h"

enum { N, D };

static void norm_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  double *slot = (double *)call->workspace + begin;
  for (int64_t r = begin; r < end; ++r) {
    *slot = 0;
    for (int64_t i = 0; i < width; ++i)
      *slot += (double)x[r * width + i] * (double)x[r * width + i];
    y[r] = sqrtf((float)*slot);
  }
}

static og_status norm_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, norm_share);
}

MODULE(workspace_slot_by_share, {.schema = "norm_rows(Tensor x) -> Tensor",
                                 .shape = "x[*N, D] -> [*N]",
                                 .workspace = "threads * 8",
                                 RUN("f32", norm_rows)})
