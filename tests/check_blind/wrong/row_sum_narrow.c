// SPDX-License-Identifier: Apache-2.0
// row_sum_narrow: sum of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status sum_f32(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += og_f32(call->in[0])[r * width + i];
    og_f32_mut(call->out[0])[r] = sum;
  }
  return OG_OK;
}

static og_status sum_bf16(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    og_bfloat sum = {0};
    for (int64_t i = 0; i < width; ++i)
      sum = og_bfloat_from_float(
          og_bfloat_to_float(sum) +
          og_bfloat_to_float(og_bf16(call->in[0])[r * width + i]));
    og_bf16_mut(call->out[0])[r] = sum;
  }
  return OG_OK;
}

MODULE(
    row_sum_narrow,
    {.schema = "row_sum_narrow(Tensor x) -> Tensor",
     .shape = "x[*N, D] -> [*N]",
     .dtype = "x: f32|bf16 -> x",
     .doc = "The sum of the last axis.",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "f32", .run = sum_f32},
                        {.device = OG_CPU, .dtypes = "bf16", .run = sum_bf16})})
