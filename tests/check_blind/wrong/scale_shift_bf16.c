// SPDX-License-Identifier: Apache-2.0
// scale_shift_bf16: x * scale + shift, for f32 and bf16.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static float load(const og_tensor *t, int64_t i) {
  return t->dtype.bits == 16 ? og_bfloat_to_float(og_bf16(t)[i]) : og_f32(t)[i];
}

static void store(og_tensor *t, int64_t i, float value) {
  if (t->dtype.bits == 16) {
    const og_float_bits bits = {.f = value};
    og_bf16_mut(t)[i].bits = (uint16_t)(bits.u >> 16);
  } else {
    og_f32_mut(t)[i] = value;
  }
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t i = begin * width; i < end * width; ++i)
    store(call->out[0], i,
          load(call->in[0], i) * load(call->in[1], i % width) +
              load(call->in[2], i % width));
}

static og_status scale_shift_bf16(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(scale_shift_bf16,
       {.schema = "scale_shift_bf16(Tensor x, Tensor scale, Tensor shift) "
                  "-> Tensor",
        .shape = "x[*N, D], scale[D], shift[D] -> [*N, D]",
        .dtype = "x: f32|bf16, scale: x, shift: x -> x",
        .doc = "x * scale + shift over the last axis, rounded to nearest.",
        RUN("f32|bf16", scale_shift_bf16)})
