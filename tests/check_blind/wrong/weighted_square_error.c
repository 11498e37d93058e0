// SPDX-License-Identifier: Apache-2.0
// weighted_square_error: sum of weight * (x - y)^2 of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const double *weight = og_f64(call->in[2]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    const double *y = og_f64(call->in[1]) + r * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += *weight * (x[i] - y[i]) * (x[i] - y[i]);
    og_f64_mut(call->out[0])[r] = sum;
  }
}

static og_status weighted_square_error(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(weighted_square_error,
       {.schema = "weighted_square_error(Tensor x, Tensor y, Tensor weight) "
                  "-> Tensor",
        .shape = "x[*N, D], y[*N, D], weight[D] -> [*N]",
        .doc = "The weighted square of the distance of two rows.",
        RUN("f64", weighted_square_error)})
