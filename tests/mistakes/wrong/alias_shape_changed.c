// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel shrinks the result by writing its shape; the rule has no data-dependent size.
// expect: compress - shape|metadata|unwritten

#include "../../modules/operators.h"

enum { N };

static og_status compress(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (x[i] > 0) y[count++] = x[i];
  call->out[0]->shape[0] = count;
  return OG_OK;
}

MODULE(alias_shape_changed, {.schema = "compress(Tensor x) -> Tensor",
                             .shape = "x[N] -> [N]",
                             RUN("f32", compress)})
