// SPDX-License-Identifier: Apache-2.0
// rank_rows: the rank of each element in its row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int64_t width = call->dim[D];
  int32_t *order = (int32_t *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    for (int64_t i = 0; i < width; ++i) {
      int64_t at = i;
      for (; at > 0 && x[order[at - 1]] > x[i]; --at) order[at] = order[at - 1];
      order[at] = (int32_t)i;
    }
    for (int64_t i = 0; i < width; ++i)
      og_i32_mut(call->out[0])[r * width + order[i]] = (int32_t)i;
  }
}

static og_status rank_rows(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 1, rows,
                           (void *)(uintptr_t)call);
}

MODULE(rank_rows,
       {.schema = "rank_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> i32",
        .workspace = "D * 4",
        .backward = "none",
        .doc = "How many entries of the row are smaller, equal ones by their "
               "order.",
        RUN("f32", rank_rows)})
