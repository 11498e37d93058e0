// SPDX-License-Identifier: Apache-2.0
// Two numbers of four bits in each byte, the low ones first.

#include "../../modules/operators.h"

enum { N, D };

static og_status nibbles(const og_call *call) {
  const int64_t count = call->dim[N] * call->dim[D];
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = og_u8(call->in[0])[i];
    og_f32_mut(call->out[0])[2 * i] = (float)((byte & 15) - 8);
    og_f32_mut(call->out[0])[2 * i + 1] = (float)((byte >> 4) - 8);
  }
  return OG_OK;
}

MODULE(nibbles, {.schema = "nibbles(Tensor x) -> Tensor",
                 .shape = "x[*N, D] -> [*N, 2 * D]",
                 .dtype = "x: u8 -> f32",
                 .backward = "none",
                 RUN("u8", nibbles)})
