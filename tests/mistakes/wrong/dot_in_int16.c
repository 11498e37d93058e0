// SPDX-License-Identifier: Apache-2.0
// mistake: Products of bytes are summed in 16 bits, the result has 64.
// expect: byte_dot - dtype|type|values

#include "../../modules/operators.h"

enum { N, D };

static og_status byte_dot(const og_call *call) {
  const uint8_t *weight = og_u8(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const uint8_t *x = og_u8(call->in[0]) + r * width;
    uint16_t sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum = (uint16_t)(sum + x[i] * weight[i]);
    og_i64_mut(call->out[0])[r] = sum;
  }
  return OG_OK;
}

MODULE(dot_in_int16, {.schema = "byte_dot(Tensor x, Tensor weight) -> Tensor",
                      .shape = "x[*N, D], weight[D] -> [*N]",
                      .dtype = "x: u8, weight: u8 -> i64",
                      .backward = "none",
                      RUN("u8", byte_dot)})
