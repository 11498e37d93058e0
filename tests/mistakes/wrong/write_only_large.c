// SPDX-License-Identifier: Apache-2.0
// mistake: From 256 elements on the kernel works in blocks of 16 and overruns the result unless the count is a multiple.
// expect: negate - out_of_bounds_write|write

#include "../../modules/operators.h"

enum { N };

static og_status negate(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  const int64_t whole = count >= 256 ? (count + 15) / 16 * 16 : count;
  for (int64_t i = 0; i < whole; ++i) y[i] = i < count ? -x[i] : 0;
  return OG_OK;
}

MODULE(write_only_large, {.schema = "negate(Tensor x) -> Tensor",
                          .shape = "x[*N] -> [*N]",
                          RUN("f32", negate)})
