// SPDX-License-Identifier: Apache-2.0
// center: subtracts the mean.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status center(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  double *y = og_f64_mut(call->out[0]);
  const int64_t count = call->dim[N] * call->dim[D];
  double mean = 0;
  for (int64_t i = 0; i < count; ++i) mean += x[i];
  mean /= (double)count;
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - mean;
  return OG_OK;
}

MODULE(center, {.schema = "center(Tensor x) -> Tensor",
                .shape = "x[*N, D] -> [*N, D]",
                .doc = "x minus the mean of its last axis.",
                RUN("f64", center)})
