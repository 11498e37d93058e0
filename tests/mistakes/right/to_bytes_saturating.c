// SPDX-License-Identifier: Apache-2.0
// Rounded and clamped in float, then stored in a byte.

#include "../../modules/operators.h"

enum { N };

static og_status to_bytes(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_u8_mut(call->out[0])[i] =
        (uint8_t)rintf(fminf(fmaxf(16 * og_f32(call->in[0])[i], 0), 255));
  return OG_OK;
}

MODULE(to_bytes_saturating, {.schema = "to_bytes(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 -> u8",
                             .backward = "none",
                             RUN("f32", to_bytes)})
