// SPDX-License-Identifier: Apache-2.0
// mistake: Each worker has its row of the workspace, but the rule has room for one.
// expect: reverse_rows - workspace

#include "../../modules/operators.h"

enum { N, D };

static void reverse_share(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const og_call *call = (const og_call *)state;
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  float *row = (float *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < width; ++i) row[i] = x[r * width + width - 1 - i];
    memcpy(y + r * width, row, (size_t)width * sizeof *row);
  }
}

static og_status reverse_rows(const og_call *call) {
  og_call copy = *call;
  return og_parallel_tasks(call, call->dim[N], 1, reverse_share, &copy);
}

MODULE(workspace_threads, {.schema = "reverse_rows(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N, D]",
                           .workspace = "D * 4",
                           RUN("f32", reverse_rows)})
