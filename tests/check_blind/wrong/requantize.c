// SPDX-License-Identifier: Apache-2.0
// requantize: int32 sums to int8 by a scale for each channel, saturating.

#include "../../modules/operators.h"

enum { N, C };  // dims of the shape rule

static int8_t narrow(float value) {
  const int16_t whole = (int16_t)(int32_t)rintf(value);
  return (int8_t)(whole > 127 ? 127 : whole < -128 ? -128 : whole);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int32_t *sum = og_i32(call->in[0]);
  const float *scale = og_f32(call->in[1]);
  const int64_t channels = call->dim[C];
  for (int64_t i = begin * channels; i < end * channels; ++i) {
    float value = (float)sum[i] * scale[i % channels];
    // What a conversion to int32 may hold.
    value = value > 1e9f ? 1e9f : value < -1e9f ? -1e9f : value;
    og_i8_mut(call->out[0])[i] = narrow(value);
  }
}

static og_status requantize(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 32, rows);
}

MODULE(requantize,
       {.schema = "requantize(Tensor sum, Tensor scale) -> Tensor",
        .shape = "sum[*N, C], scale[C] -> [*N, C]",
        .dtype = "sum: i32, scale: f32 -> i8",
        .backward = "none",
        .doc = "sum * scale, rounded to the nearest integer (half to even) and "
               "clamped to [-128, 127].",
        RUN("i32", requantize)})
