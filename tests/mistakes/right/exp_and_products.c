// SPDX-License-Identifier: Apache-2.0
// exp() of each element times the cube of another: large numbers overflow, as
// they have to.

#include "../../modules/operators.h"

enum { N };

static og_status exp_cube(const og_call *call) {
  const float *b = og_f32(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = expf(x[i]) * b[i] * b[i] * b[i] - expf(-x[i]);
  return OG_OK;
}

MODULE(exp_and_products, {.schema = "exp_cube(Tensor x, Tensor b) -> Tensor",
                          .shape = "x[N], b[N] -> [N]",
                          RUN("f32", exp_cube)})
