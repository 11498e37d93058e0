// SPDX-License-Identifier: Apache-2.0
// mistake: The rounded product is stored in 16 bits before it is clamped to a byte.
// expect: to_bytes - dtype|type|values

#include "../../modules/operators.h"

enum { N };

static og_status to_bytes(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const float value = fminf(fmaxf(16 * x[i], -1e9f), 1e9f);
    const int16_t whole = (int16_t)(int32_t)rintf(value);
    og_u8_mut(call->out[0])[i] = (uint8_t)(whole > 255 ? 255
                                           : whole < 0 ? 0
                                                       : whole);
  }
  return OG_OK;
}

MODULE(clamped_after_wrap, {.schema = "to_bytes(Tensor x) -> Tensor",
                            .shape = "x[*N] -> [*N]",
                            .dtype = "x: f32 -> u8",
                            .backward = "none",
                            RUN("f32", to_bytes)})
