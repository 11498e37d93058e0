// SPDX-License-Identifier: Apache-2.0
// mistake: The share that begins at 0 clears the histogram, whether or not it runs first.
// expect: histogram - chunk_order|chunk|race|threads

#include "../../modules/operators.h"

enum { N };

static void count_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  if (begin == 0) memset(y, 0, 8 * sizeof *y);
  for (int64_t i = begin; i < end; ++i)
    ++y[x[i] > 0 ? (x[i] < 7 ? (int)x[i] : 7) : 0];
}

static og_status histogram(const og_call *call) {
  if (call->dim[N] == 0) memset(og_data(call->out[0]), 0, 64);
  return og_parallel_for(call, call->dim[N], 1, count_share);
}

MODULE(chunk_first_clears, {.schema = "histogram(Tensor x) -> Tensor",
                            .shape = "x[N] -> [8]",
                            .dtype = "x: f32 -> i64",
                            RUN(NULL, histogram)})
