// SPDX-License-Identifier: Apache-2.0
// mistake: Each share also writes the first row of the next one.
// expect: smooth_rows - race|chunk|out_of_bounds_write

#include "../../modules/operators.h"

enum { N, D };

static void smooth_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  const int64_t last = end < call->dim[N] ? end + 1 : end;
  for (int64_t r = begin; r < last; ++r) {
    const float weight = r < end ? 0.5f : 0.25f;
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = weight * x[r * width + i];
  }
}

static og_status smooth_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, smooth_share);
}

MODULE(race_overlap, {.schema = "smooth_rows(Tensor x) -> Tensor",
                      .shape = "x[N, D] -> [N, D]",
                      RUN("f32", smooth_rows)})
