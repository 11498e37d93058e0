// SPDX-License-Identifier: Apache-2.0
// sorted_rows: each row in ascending order, by merging.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void halves_merge(float *y, int64_t half, int64_t count) {
  float left[512];
  int64_t i = 0, j = half;
  memcpy(left, y, (size_t)half * sizeof *y);
  for (int64_t at = 0; i < half; ++at)
    y[at] = j < count && y[j] < left[i] ? y[j++] : left[i++];
}

static void row_sort(float *y, int64_t count) {
  if (count < 2) return;
  row_sort(y, count / 2);
  row_sort(y + count / 2, count - count / 2);
  halves_merge(y, count / 2, count);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    float *y = og_f32_mut(call->out[0]) + r * width;
    memcpy(y, og_f32(call->in[0]) + r * width, (size_t)width * sizeof *y);
    row_sort(y, width);
  }
}

static og_status sorted_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, rows);
}

MODULE(sorted_rows, {.schema = "sorted_rows(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D]",
                     .doc = "The last axis in ascending order.",
                     RUN("f32", sorted_rows)})
