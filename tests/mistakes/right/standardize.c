// SPDX-License-Identifier: Apache-2.0
// Rows to zero mean and unit variance, in place too: the statistics of a row
// are complete before its first element is overwritten.

#include "../../modules/operators.h"

enum { N, D };

static void standardize_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    double sum = 0, squares = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) sum += (double)x[i];
    const double mean = sum / (double)width;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double scale = 1 / sqrt(squares / (double)width + 1e-3);
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      y[i] = (float)(((double)x[i] - mean) * scale);
  }
}

static og_status standardize(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, standardize_rows);
}

MODULE(standardize, {.schema = "standardize(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D]",
                     .where = "D > 0",
                     .inplace = "x",
                     RUN("f32", standardize)})
