// SPDX-License-Identifier: Apache-2.0
// The place of the largest product of a row: rounded to f16, several tie.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status argmax_product_f16(const og_call *call) {
  const og_half *x = og_f16(call->in[0]), *y = og_f16(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width, y += width) {
    float best = 0;
    int64_t place = -1;
    for (int64_t i = 0; i < width; ++i) {
      const float product = og_half_to_float(
          og_half_from_float(og_half_to_float(x[i]) * og_half_to_float(y[i])));
      if (place >= 0 && product <= best) continue;
      best = product;
      place = i;
    }
    og_i64_mut(call->out[0])[r] = place;
  }
  return OG_OK;
}

static og_status argmax_product_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]), *y = og_f32(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width, y += width) {
    int64_t place = 0;
    for (int64_t i = 1; i < width; ++i)
      if (x[i] * y[i] > x[place] * y[place]) place = i;
    og_i64_mut(call->out[0])[r] = place;
  }
  return OG_OK;
}

MODULE(argmax_product,
       {.schema = "argmax_product(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N, D], y[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32|f16, y: x -> i64",
        .backward = "none",
        .kernels = KERNELS(
            {.device = OG_CPU, .dtypes = "f32", .run = argmax_product_f32},
            {.device = OG_CPU, .dtypes = "f16", .run = argmax_product_f16})})
