// SPDX-License-Identifier: Apache-2.0
// mean_tree: mean of each row by halving.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int64_t width = call->dim[D];
  float *part = (float *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    memcpy(part, og_f32(call->in[0]) + r * width, (size_t)width * 4);
    for (int64_t count = width; count > 1; count /= 2)
      for (int64_t i = 0; i < count / 2; ++i) part[i] += part[i + count / 2];
    og_f32_mut(call->out[0])[r] = part[0] / (float)width;
  }
}

static og_status mean_tree(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 2, rows,
                           (void *)(uintptr_t)call);
}

MODULE(mean_tree,
       {.schema = "mean_tree(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .workspace = "threads * D * 4",
        .doc = "The mean of the last axis. Pairwise sums keep rounding errors "
               "small.",
        RUN("f32", mean_tree)})
