// SPDX-License-Identifier: Apache-2.0
// A hash of 32 bits, whose products wrap around by design.

#include "../../modules/operators.h"

enum { N, D };

static og_status hashed(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    uint32_t h = 2166136261u;
    for (int64_t i = 0; i < width; ++i)
      h = (h ^ og_u8(call->in[0])[r * width + i]) * 16777619u;
    og_i64_mut(call->out[0])[r] = h;
  }
  return OG_OK;
}

MODULE(hashed, {.schema = "hashed(Tensor x) -> Tensor",
                .shape = "x[*N, D] -> [*N]",
                .dtype = "x: u8 -> i64",
                .backward = "none",
                RUN("u8", hashed)})
