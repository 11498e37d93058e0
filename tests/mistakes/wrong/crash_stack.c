// SPDX-License-Identifier: Apache-2.0
// mistake: A row is copied to an array on the stack that has 16 places, however long the row is.
// expect: median_rows - crash|out_of_bounds_write|stack

#include "../../modules/operators.h"

enum { N, D };

static void insert(volatile float *row, int64_t count, float value) {
  int64_t k = count;
  for (; k > 0 && row[k - 1] > value; --k) row[k] = row[k - 1];
  row[k] = value;
}

static og_status median_rows(const og_call *call) {
  volatile float row[16];
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    for (int64_t i = 0; i < width; ++i) insert(row, i, x[r * width + i]);
    y[r] = row[width / 2];
  }
  return OG_OK;
}

MODULE(crash_stack, {.schema = "median_rows(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N]",
                     .where = "D > 0",
                     RUN("f32", median_rows)})
