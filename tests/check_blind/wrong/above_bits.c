// SPDX-License-Identifier: Apache-2.0
// above_bits: a bit for each number that is above a limit.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  uint8_t *y = og_u8_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    if (x[i] > (float)call->attr[0].f)
      y[i / 8] = (uint8_t)(y[i / 8] | 1 << i % 8);
}

static og_status above_bits(const og_call *call) {
  memset(og_data(call->out[0]), 0, (size_t)og_numel(call->out[0]));
  return og_parallel_for(call, call->dim[N], 1, elements);
}

MODULE(above_bits,
       {.schema = "above_bits(Tensor x, float limit=0.0) -> Tensor",
        .shape = "x[N] -> [ceildiv(N, 8)]",
        .dtype = "x: f32 -> u8",
        .backward = "none",
        .doc = "Bit i % 8 of byte i // 8 is whether x[i] is above the limit.",
        RUN("f32", above_bits)})
