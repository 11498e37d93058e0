// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel never says how many it found.
// expect: positives - data_dependent|never_set|unwritten

#include "../../modules/operators.h"

enum { N, K };

static og_status positives(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (x[i] > 0) y[count++] = x[i];
  return OG_OK;
}

MODULE(found_never_set, {.schema = "positives(Tensor x) -> Tensor",
                         .shape = "x[N] -> [K <= N]",
                         RUN("f32", positives)})
