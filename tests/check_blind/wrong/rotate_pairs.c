// SPDX-License-Identifier: Apache-2.0
// rotate_pairs: turns each pair of neighbours by one angle.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const double c = cos(call->attr[0].f), s = sin(call->attr[0].f);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    for (int64_t i = 0; i < width / 2; ++i) {
      y[2 * i] = c * x[2 * i] - s * x[2 * i + 1];
      y[2 * i + 1] = s * x[2 * i] + c * x[2 * i + 1];
    }
  }
}

static og_status rotate_pairs(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(rotate_pairs,
       {.schema = "rotate_pairs(Tensor x, float angle=0.5) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .doc = "The last axis as points of a plane, turned by the angle.",
        RUN("f64", rotate_pairs)})
