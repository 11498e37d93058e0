// SPDX-License-Identifier: Apache-2.0
// mistake: The condition allows two points, but the second difference reads three.
// expect: curvature x where|out_of_bounds_read

#include "../../modules/operators.h"

enum { N, D };

static og_status curvature(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *row = x + r * width;
    float sum = row[0] - 2 * row[1] + row[2];
    for (int64_t i = 2; i + 1 < width; ++i)
      sum += row[i - 1] - 2 * row[i] + row[i + 1];
    y[r] = sum;
  }
  return OG_OK;
}

MODULE(shape_where_edge, {.schema = "curvature(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N]",
                          .where = "D >= 2",
                          RUN("f32", curvature)})
