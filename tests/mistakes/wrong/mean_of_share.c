// SPDX-License-Identifier: Apache-2.0
// mistake: Each share of long vectors subtracts its own mean.
// expect: center_all - chunk|threads|race

#include "../../modules/operators.h"

enum { N };

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const double *x = og_f64(call->in[0]);
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += x[i];
  for (int64_t i = begin; i < end; ++i)
    og_f64_mut(call->out[0])[i] = x[i] - sum / (double)(end - begin);
}

static og_status center_all(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1024, elements);
}

MODULE(mean_of_share, {.schema = "center_all(Tensor x) -> Tensor",
                       .shape = "x[N] -> [N]",
                       RUN("f64", center_all)})
