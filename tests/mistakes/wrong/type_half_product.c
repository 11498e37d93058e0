// SPDX-License-Identifier: Apache-2.0
// mistake: Each square is rounded to f16, which holds none beyond 65504.
// expect: type_half_product - values_across_dtypes
//
// A sixteenth of the mean square of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status type_half_product_f16(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const og_half *x = og_f16(call->in[0]) + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = og_half_to_float(x[i]);
      sum += og_half_to_float(og_half_from_float(v * v)) / (float)n / 16;
    }
    og_f16_mut(call->out[0])[r] = og_half_from_float(sum);
  }
  return OG_OK;
}

static og_status type_half_product_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    og_f32_mut(call->out[0])[r] = sum / (float)n / 16;
  }
  return OG_OK;
}

MODULE(type_half_product,
       {.schema = "type_half_product(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32|f16 -> x",
        .kernels = KERNELS(
            {.device = OG_CPU, .dtypes = "f32", .run = type_half_product_f32},
            {.device = OG_CPU, .dtypes = "f16", .run = type_half_product_f16})})
