// SPDX-License-Identifier: Apache-2.0
// Positions beyond the trained length are scaled by a factor.

#include "../../modules/operators.h"

enum { N, S };

static og_status stretch(const og_call *call) {
  const int64_t length = call->dim[S], trained = call->attr[0].i;
  const double factor = length > trained ? call->attr[1].f : 1;
  for (int64_t i = 0; i < call->dim[N] * length; ++i)
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] + factor * (double)(i % length);
  return OG_OK;
}

MODULE(
    stretched_positions,
    {.schema = "stretch(Tensor x, int trained=16, float factor=0.5) -> Tensor",
     .shape = "x[*N, S] -> [*N, S]",
     .where = "trained > 0",
     RUN("f64", stretch)})
