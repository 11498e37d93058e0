// SPDX-License-Identifier: Apache-2.0
// mistake: The rule asks for D floats, the kernel keeps D doubles.
// expect: running_mean - workspace

#include "../../modules/operators.h"

enum { R, D };

static og_status running_mean(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  double *sum = (double *)call->workspace;
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) sum[i] = 0;
  for (int64_t r = 0; r < call->dim[R]; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      sum[i] += (double)x[r * width + i];
      y[r * width + i] = (float)(sum[i] / (double)(r + 1));
    }
  }
  return OG_OK;
}

MODULE(workspace_overrun, {.schema = "running_mean(Tensor x) -> Tensor",
                           .shape = "x[R, D] -> [R, D]",
                           .workspace = "D * 4",
                           RUN("f32", running_mean)})
