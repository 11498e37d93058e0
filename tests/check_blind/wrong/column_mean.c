// SPDX-License-Identifier: Apache-2.0
// column_mean: the mean of each column.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status column_mean(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  double *y = og_f64_mut(call->out[0]);
  const int64_t width = call->dim[D];
  memset(y, 0, (size_t)width * sizeof *y);
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i % width] += x[i];
  for (int64_t d = 0; d < width; ++d) y[d] /= (double)call->dim[N];
  return OG_OK;
}

MODULE(column_mean, {.schema = "column_mean(Tensor x) -> Tensor",
                     .shape = "x[N, D] -> [D]",
                     .where = "N > 0",
                     .reduce = "sum",
                     .doc = "The mean over the rows.",
                     RUN("f64", column_mean)})
