// SPDX-License-Identifier: Apache-2.0
// A dot product of bytes that stops at the limits of 16 bits, in 32.

#include "../../modules/operators.h"

enum { N, D };

static og_status saturating_dot(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    int64_t sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += og_i8(call->in[0])[r * width + i] * og_i8(call->in[1])[i];
    og_i32_mut(call->out[0])[r] = (int32_t)(sum > 32767    ? 32767
                                            : sum < -32768 ? -32768
                                                           : sum);
  }
  return OG_OK;
}

MODULE(saturating_dot,
       {.schema = "saturating_dot(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N, D], y[D] -> [*N]",
        .dtype = "x: i8, y: i8 -> i32",
        .backward = "none",
        RUN("i8", saturating_dot)})
