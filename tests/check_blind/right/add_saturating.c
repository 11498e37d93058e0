// SPDX-License-Identifier: Apache-2.0
// add_saturating: integer sums that stop at the limits of their type.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static int32_t clamp(int32_t x, int32_t limit) {
  return x > limit ? limit : x < -limit - 1 ? -limit - 1 : x;
}

static og_status add_i8(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i8_mut(call->out[0])[i] =
        (int8_t)clamp(og_i8(call->in[0])[i] + og_i8(call->in[1])[i], INT8_MAX);
  return OG_OK;
}

static og_status add_i16(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i16_mut(call->out[0])[i] = (int16_t)clamp(
        og_i16(call->in[0])[i] + og_i16(call->in[1])[i], INT16_MAX);
  return OG_OK;
}

MODULE(
    add_saturating,
    {.schema = "add_saturating(Tensor x, Tensor y) -> Tensor",
     .shape = "x[*N], y[*N] -> [*N]",
     .dtype = "x: i8|i16, y: x -> x",
     .inplace = "x",
     .backward = "none",
     .doc = "x + y, clamped to what the type holds.",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "i8", .run = add_i8},
                        {.device = OG_CPU, .dtypes = "i16", .run = add_i16})})
