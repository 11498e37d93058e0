// SPDX-License-Identifier: Apache-2.0
// How many entries of a table are below each number; its own sample sorts the
// table, and takes long over a large one. One share has many numbers.

#include "../../modules/operators.h"

enum { S, N };

static void count(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t below = 0;
    while (below < call->dim[S] &&
           og_f32(call->in[0])[below] < og_f32(call->in[1])[i])
      ++below;
    og_i64_mut(call->out[0])[i] = below;
  }
}

static og_status count_below(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 64, count);
}

static og_status sorted(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) return OG_OK;
  float *x = og_f32_mut(call->in[0]);
  for (int64_t i = 1; i < og_numel(call->in[0]); ++i)
    for (int64_t j = i; j > 0 && x[j] < x[j - 1]; --j) {
      const float held = x[j];
      x[j] = x[j - 1];
      x[j - 1] = held;
    }
  return OG_OK;
}

MODULE(sorted_by_sample,
       {.schema = "count_below(Tensor table, Tensor x) -> Tensor",
        .shape = "table[S], x[N] -> [N]",
        .dtype = "table: f32, x: table -> i64",
        .backward = "none",
        .sample = sorted,
        RUN("f32", count_below)})
