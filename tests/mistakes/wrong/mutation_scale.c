// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel scales x in place on its way to the result, and the schema does not say so.
// expect: scale x undeclared_mutation|mutation

#include "../../modules/operators.h"

enum { N };

static og_status scale(const og_call *call) {
  float *x = (float *)og_data(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    x[i] *= (float)call->attr[0].f;
    y[i] = x[i];
  }
  return OG_OK;
}

MODULE(mutation_scale, {.schema = "scale(Tensor x, float by=2.0) -> Tensor",
                        .shape = "x[*N] -> [*N]",
                        RUN("f32", scale)})
