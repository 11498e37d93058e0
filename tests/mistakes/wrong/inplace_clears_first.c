// SPDX-License-Identifier: Apache-2.0
// mistake: Declared to work in place, but the result, which is then x, is cleared before x is read.
// expect: suffix_sum|suffix_sum_ - inplace|alias

#include "../../modules/operators.h"

enum { D };

static og_status suffix_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) y[i] = 0;
  for (int64_t i = 0; i < width; ++i)
    for (int64_t k = i; k < width; ++k) y[i] += x[k];
  return OG_OK;
}

MODULE(inplace_clears_first, {.schema = "suffix_sum(Tensor x) -> Tensor",
                              .shape = "x[D] -> [D]",
                              .inplace = "x",
                              RUN("f32", suffix_sum)})
