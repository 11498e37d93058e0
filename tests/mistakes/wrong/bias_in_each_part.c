// SPDX-License-Identifier: Apache-2.0
// mistake: partial results are said to add up, but each part adds the bias
// expect: row_dot - rule_disagrees|rule|reduce

#include "../../modules/operators.h"

enum { N, I };  // dims of the shape rule, in order of first appearance

static og_status row_dot(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  const double *w = og_f64(call->in[1]);
  const double *bias = og_f64(call->in[2]);
  double *y = og_f64_mut(call->out[0]);
  for (int64_t n = 0; n < call->dim[N]; ++n) {
    double sum = bias[0];
    for (int64_t i = 0; i < call->dim[I]; ++i)
      sum += x[n * call->dim[I] + i] * w[i];
    y[n] = sum;
  }
  return OG_OK;
}

MODULE(bias_in_each_part,
       {.schema = "row_dot(Tensor x, Tensor w, Tensor bias) -> Tensor",
        .shape = "x[*N, I], w[I], bias[] -> [*N]",
        .reduce = "I: sum",
        RUN("f64", row_dot)})
