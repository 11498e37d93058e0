// SPDX-License-Identifier: Apache-2.0
// median_lower: the lower median of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int64_t width = call->dim[D];
  float *line = (float *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    memcpy(line, og_f32(call->in[0]) + r * width, (size_t)width * 4);
    for (int64_t i = 1; i < width; ++i) {
      const float x = line[i];
      int64_t at = i;
      for (; at > 0 && line[at - 1] > x; --at) line[at] = line[at - 1];
      line[at] = x;
    }
    og_f32_mut(call->out[0])[r] = line[width / 2];
  }
}

static og_status median_lower(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 1, rows,
                           (void *)(uintptr_t)call);
}

MODULE(median_lower,
       {.schema = "median_lower(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .workspace = "threads * D * 4",
        .doc = "The median of the last axis; of an even number of elements the "
               "smaller of the middle two.",
        RUN("f32", median_lower)})
