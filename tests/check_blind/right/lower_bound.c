// SPDX-License-Identifier: Apache-2.0
// lower_bound: where each number would go in a sorted vector.

#include "../../modules/operators.h"

enum { S, N };  // dims of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *sorted = og_f32(call->in[0]);
  const int64_t is_right = call->attr[0].i;
  for (int64_t i = begin; i < end; ++i) {
    const float x = og_f32(call->in[1])[i];
    int64_t low = 0, high = call->dim[S];
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (sorted[middle] < x || (is_right && sorted[middle] == x))
        low = middle + 1;
      else
        high = middle;
    }
    og_i64_mut(call->out[0])[i] = low;
  }
}

static og_status lower_bound(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 64, elements);
}

static og_status sample(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) return OG_OK;
  float *x = og_f32_mut(call->in[0]);
  for (int64_t i = 1; i < og_numel(call->in[0]); ++i)
    for (int64_t j = i; j > 0 && x[j] < x[j - 1]; --j) {
      const float swap = x[j];
      x[j] = x[j - 1];
      x[j - 1] = swap;
    }
  return OG_OK;
}

MODULE(lower_bound,
       {.schema = "lower_bound(Tensor sorted, Tensor x, bool right=False) -> "
                  "Tensor",
        .shape = "sorted[S], x[N] -> [N]",
        .dtype = "sorted: f32, x: sorted -> i64",
        .backward = "none",
        .doc = "How many entries are below x, with right also those equal to "
               "it.",
        .sample = sample,
        RUN("f32", lower_bound)})
