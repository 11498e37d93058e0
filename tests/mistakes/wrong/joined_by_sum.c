// SPDX-License-Identifier: Apache-2.0
// mistake: Parts of a mean square are said to join by a sum.
// expect: mean_square - rule_disagrees|reduce

#include "../../modules/operators.h"

enum { D };

static og_status mean_square(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  double sum = 0;
  for (int64_t i = 0; i < call->dim[D]; ++i) sum += x[i] * x[i];
  og_f64_mut(call->out[0])[0] = sum / (double)call->dim[D];
  return OG_OK;
}

MODULE(joined_by_sum, {.schema = "mean_square(Tensor x) -> Tensor",
                       .shape = "x[D] -> []",
                       .where = "D > 0",
                       .reduce = "D: sum",
                       RUN("f64", mean_square)})
