// SPDX-License-Identifier: Apache-2.0
// quantile_rows: the quantile of each row, linear between two entries.

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static int compare(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  const double q = call->attr[0].f < 0 ? 0 : call->attr[0].f;
  for (int64_t r = begin; r < end; ++r) {
    float *x = (float *)og_data(call->in[0]) + r * width;
    qsort(x, (size_t)width, sizeof *x, compare);
    const double at = (q > 1 ? 1 : q) * (double)(width - 1);
    const int64_t low = (int64_t)at;
    const int64_t high = low + 1 < width ? low + 1 : low;
    og_f32_mut(call->out[0])[r] =
        (float)(x[low] + (at - (double)low) * (x[high] - x[low]));
  }
}

static og_status quantile_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, rows);
}

MODULE(quantile_rows,
       {.schema = "quantile_rows(Tensor x, float q=0.5) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .doc = "The q quantile of the last axis, q clamped to [0, 1].",
        RUN("f32", quantile_rows)})
