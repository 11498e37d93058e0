// SPDX-License-Identifier: Apache-2.0
// cumulative_max: the largest row so far, element by element.

#include "../../modules/operators.h"

enum { T, D };  // dims of the shape rule

static void steps(const og_call *call, int64_t begin, int64_t end) {
  float *top = call->workspace;
  const int64_t width = call->dim[D];
  for (int64_t t = begin; t < end; ++t)
    for (int64_t d = 0; d < width; ++d) {
      const float x = og_f32(call->in[0])[t * width + d];
      if (x > top[d]) top[d] = x;
      og_f32_mut(call->out[0])[t * width + d] = top[d];
    }
}

static og_status cumulative_max(const og_call *call) {
  float *top = call->workspace;
  for (int64_t d = 0; d < call->dim[D]; ++d) top[d] = -INFINITY;
  return og_parallel_for(call, call->dim[T], 32, steps);
}

MODULE(cumulative_max, {.schema = "cumulative_max(Tensor x) -> Tensor",
                        .shape = "x[T, D] -> [T, D]",
                        .workspace = "D * 4",
                        .doc = "Result row t is the maximum of rows 0 to t.",
                        RUN("f32", cumulative_max)})
