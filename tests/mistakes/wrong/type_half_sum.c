// SPDX-License-Identifier: Apache-2.0
// mistake: The sum of f16 is kept in f16: from 2048 on it stops to grow.
// expect: type_half_sum - values_across_dtypes
//
// The mean square of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status type_half_sum_f16(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const og_half *x = og_f16(call->in[0]) + r * n;
    og_half sum = og_half_from_float(0);
    for (int64_t i = 0; i < n; ++i) {
      const float v = og_half_to_float(x[i]);
      sum = og_half_from_float(og_half_to_float(sum) + v * v);
    }
    og_f16_mut(call->out[0])[r] =
        og_half_from_float(og_half_to_float(sum) / (float)n);
  }
  return OG_OK;
}

static og_status type_half_sum_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    og_f32_mut(call->out[0])[r] = sum / (float)n;
  }
  return OG_OK;
}

MODULE(type_half_sum,
       {.schema = "type_half_sum(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32|f16 -> x",
        .kernels = KERNELS(
            {.device = OG_CPU, .dtypes = "f32", .run = type_half_sum_f32},
            {.device = OG_CPU, .dtypes = "f16", .run = type_half_sum_f16})})
