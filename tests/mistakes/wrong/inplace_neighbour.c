// SPDX-License-Identifier: Apache-2.0
// mistake: Declared to work in place, but element i reads element i - 1 after it was overwritten.
// expect: blur|blur_ - inplace|alias

#include "../../modules/operators.h"

enum { D };

static og_status blur(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[D]; ++i)
    y[i] = i > 0 ? 0.5f * (x[i] + x[i - 1]) : x[i];
  return OG_OK;
}

MODULE(inplace_neighbour, {.schema = "blur(Tensor x) -> Tensor",
                           .shape = "x[D] -> [D]",
                           .inplace = "x",
                           RUN("f32", blur)})
