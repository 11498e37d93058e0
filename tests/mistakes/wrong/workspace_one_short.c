// SPDX-License-Identifier: Apache-2.0
// mistake: Prefix sums need D + 1 places, the rule gives D.
// expect: window_sum - workspace

#include "../../modules/operators.h"

enum { D };

static og_status window_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  double *prefix = (double *)call->workspace;
  const int64_t width = call->dim[D], half = call->attr[0].i;
  prefix[0] = 0;
  for (int64_t i = 0; i < width; ++i) prefix[i + 1] = prefix[i] + (double)x[i];
  for (int64_t i = 0; i < width; ++i) {
    const int64_t from = i > half ? i - half : 0;
    const int64_t to = i < width - half ? i + half + 1 : width;
    y[i] = (float)(prefix[to] - prefix[from]);
  }
  return OG_OK;
}

MODULE(workspace_one_short,
       {.schema = "window_sum(Tensor x, int half=1) -> Tensor",
        .shape = "x[D] -> [D]",
        .where = "half >= 0, D > 0, half < 1000000",
        .workspace = "D * 8",
        RUN("f32", window_sum)})
