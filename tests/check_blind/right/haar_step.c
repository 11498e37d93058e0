// SPDX-License-Identifier: Apache-2.0
// haar_step: one step of the Haar transform, means before differences.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], low = (width + 1) / 2;
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    for (int64_t i = 0; i < width / 2; ++i) {
      y[i] = (x[2 * i] + x[2 * i + 1]) / 2;
      y[low + i] = (x[2 * i] - x[2 * i + 1]) / 2;
    }
    if (width % 2 == 1) y[low - 1] = x[width - 1];
  }
}

static og_status haar_step(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(haar_step,
       {.schema = "haar_step(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .doc = "ceil(D / 2) means of neighbours, then floor(D / 2) half "
               "differences. An odd last entry stays as it is, behind the "
               "other means.",
        RUN("f64", haar_step)})
