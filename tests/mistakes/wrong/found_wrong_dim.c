// SPDX-License-Identifier: Apache-2.0
// mistake: The count goes to the dim N instead of K.
// expect: positives - data_dependent|never_set|dim|unwritten

#include "../../modules/operators.h"

enum { N, K };

static og_status positives(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t total = call->dim[N];
  int64_t count = 0;
  for (int64_t i = 0; i < total; ++i)
    if (x[i] > 0) y[count++] = x[i];
  og_set_dim(call, N, count);
  return OG_OK;
}

MODULE(found_wrong_dim, {.schema = "positives(Tensor x) -> Tensor",
                         .shape = "x[N] -> [K <= N]",
                         RUN("f32", positives)})
