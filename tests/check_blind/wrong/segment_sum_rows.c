// SPDX-License-Identifier: Apache-2.0
// segment_sum_rows: rows added up by the segment that each belongs to.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void row_add(float *y, const float *x, int64_t width) {
  for (int64_t d = 0; d < width; ++d) y[d] += x[d];
}

static og_status segment_sum_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *segment = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D], count = call->attr[0].i;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (segment[i] < 0 || segment[i] >= count)
      return og_fail(call, OG_INVALID, "a segment is outside [0, count)");
  memset(y, 0, (size_t)(count * width) * sizeof *y);
  for (int64_t i = 0; i + 4 <= call->dim[N]; i += 4) {
    row_add(y + segment[i] * width, x + i * width, width);
    row_add(y + segment[i + 1] * width, x + (i + 1) * width, width);
    row_add(y + segment[i + 2] * width, x + (i + 2) * width, width);
    row_add(y + segment[i + 3] * width, x + (i + 3) * width, width);
  }
  return OG_OK;
}

MODULE(segment_sum_rows,
       {.schema = "segment_sum_rows(Tensor x, Tensor segment, SymInt count) "
                  "-> Tensor",
        .shape = "x[N, D], segment[N] -> [count, D]",
        .where = "count >= 0",
        .dtype = "x: f32, segment: i64 -> x",
        .doc = "Result row s is the sum of the rows whose segment is s.",
        RUN("f32", segment_sum_rows)})
