// SPDX-License-Identifier: Apache-2.0
// mistake: Each worker has room for 4 rows, as if a share were never longer than the grain.
// expect: mean_rows - workspace

#include "../../modules/operators.h"

enum { N, D };

static void mean_share(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const og_call *call = (const og_call *)state;
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  double *mean = (double *)call->workspace + worker * 4;
  for (int64_t r = begin; r < end; ++r) {
    mean[r - begin] = 0;
    for (int64_t i = 0; i < width; ++i)
      mean[r - begin] += (double)x[r * width + i] / (double)width;
  }
  for (int64_t r = begin; r < end; ++r) y[r] = (float)mean[r - begin];
}

static og_status mean_rows(const og_call *call) {
  og_call copy = *call;
  return og_parallel_tasks(call, call->dim[N], 4, mean_share, &copy);
}

MODULE(workspace_share_length, {.schema = "mean_rows(Tensor x) -> Tensor",
                                .shape = "x[*N, D] -> [*N]",
                                .workspace = "threads * 32",
                                RUN("f32", mean_rows)})
