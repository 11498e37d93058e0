// SPDX-License-Identifier: Apache-2.0
// Parts of a sum join by a sum.

#include "../../modules/operators.h"

enum { N, D };

static og_status sum_of_parts(const og_call *call) {
  const int64_t width = call->dim[D];
  double *y = og_f64_mut(call->out[0]);
  for (int64_t d = 0; d < width; ++d) y[d] = 0;
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    y[i % width] += og_f64(call->in[0])[i];
  return OG_OK;
}

MODULE(sum_of_parts, {.schema = "sum_of_parts(Tensor x) -> Tensor",
                      .shape = "x[N, D] -> [D]",
                      .reduce = "N: sum",
                      RUN("f64", sum_of_parts)})
