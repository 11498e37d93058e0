// SPDX-License-Identifier: Apache-2.0
// ring_append: writes rows to a ring from a start that may be any number.

#include "../../modules/operators.h"

enum { S, D, T };  // dims of the shape rule

static og_status ring_append(const og_call *call) {
  const int64_t slots = call->dim[S], width = call->dim[D];
  const int64_t start = *og_i64(call->in[2]) % slots;
  float *ring = og_f32_mut(call->out[0]);
  for (int64_t t = 0; t < call->dim[T]; ++t) {
    const int64_t slot = (start + slots + t) % slots;
    for (int64_t d = 0; d < width; ++d)
      ring[slot * width + d] = og_f32(call->in[1])[t * width + d];
  }
  return OG_OK;
}

MODULE(ring_append,
       {.schema = "ring_append(Tensor(a!) ring, Tensor x, Tensor start) -> ()",
        .shape = "ring[S, D], x[T, D], start[1]",
        .where = "S > 0, T <= S",
        .dtype = "ring: f32, x: ring, start: i64",
        .doc = "Row t of x goes to slot (start + t) modulo S.",
        RUN("f32", ring_append)})
