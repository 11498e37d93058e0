// SPDX-License-Identifier: Apache-2.0
// to_bytes: numbers to unsigned bytes, saturating.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float x = og_f32(call->in[0])[i];
    uint8_t byte = 0;  // also of NaN
    if (x >= 255)
      byte = 255;
    else if (x > 0)
      byte = (uint8_t)rintf(x);
    og_u8_mut(call->out[0])[i] = byte;
  }
}

static og_status to_bytes(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4096, elements);
}

MODULE(to_bytes,
       {.schema = "to_bytes(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> u8",
        .backward = "none",
        .doc = "The nearest integer of [0, 255], half to even; NaN gives 0.",
        RUN("f32", to_bytes)})
