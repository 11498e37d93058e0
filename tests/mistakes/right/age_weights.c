// SPDX-License-Identifier: Apache-2.0
// Elements are weighted by how far they are from the end of the row.

#include "../../modules/operators.h"

enum { N, D };

static og_status age(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] *
        exp(-call->attr[0].f * (double)(width - 1 - i % width));
  return OG_OK;
}

MODULE(age_weights, {.schema = "age(Tensor x, float decay=0.1) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D]",
                     RUN("f64", age)})
