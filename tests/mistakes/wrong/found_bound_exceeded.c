// SPDX-License-Identifier: Apache-2.0
// mistake: At most half of the elements are declared to be found, but all may be.
// expect: positives - data_dependent|bound|out_of_bounds_write

#include "../../modules/operators.h"

enum { N, K };

static og_status positives(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (x[i] > 0) y[count++] = x[i];
  og_set_dim(call, K, count);
  return OG_OK;
}

MODULE(found_bound_exceeded, {.schema = "positives(Tensor x) -> Tensor",
                              .shape = "x[N] -> [K <= ceildiv(N, 2)]",
                              RUN("f32", positives)})
