// SPDX-License-Identifier: Apache-2.0
// dequantize_u8: (q - zero) * scale of each channel.

#include "../../modules/operators.h"

enum { N, C };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int8_t *q = og_i8(call->in[0]);
  const float *scale = og_f32(call->in[1]);
  const int8_t *zero = og_i8(call->in[2]);
  const int64_t channels = call->dim[C];
  for (int64_t i = begin * channels; i < end * channels; ++i) {
    const int64_t c = i % channels;
    og_f32_mut(call->out[0])[i] = scale[c] * (float)(q[i] - zero[c]);
  }
}

static og_status dequantize_u8(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 16, rows);
}

MODULE(dequantize_u8,
       {.schema = "dequantize_u8(Tensor q, Tensor scale, Tensor zero) "
                  "-> Tensor",
        .shape = "q[*N, C], scale[C], zero[C] -> [*N, C]",
        .dtype = "q: u8, scale: f32, zero: u8 -> scale",
        .doc = "Numbers from unsigned bytes, with a scale and a zero point for "
               "each channel.",
        RUN("u8", dequantize_u8)})
