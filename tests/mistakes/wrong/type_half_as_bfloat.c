// SPDX-License-Identifier: Apache-2.0
// mistake: The f16 path uses the conversions of bf16.
// expect: triple - dtype|type|f16|value

#include "../../modules/operators.h"

enum { N };

static og_status triple_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = 3 * x[i];
  return OG_OK;
}

static og_status triple_half(const og_call *call) {
  const og_bfloat *x = og_bf16(call->in[0]);
  og_bfloat *y = og_bf16_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = og_bfloat_from_float(3 * og_bfloat_to_float(x[i]));
  return OG_OK;
}

MODULE(type_half_as_bfloat,
       {.schema = "triple(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32|bf16|f16 -> x",
        .kernels =
            KERNELS({.device = OG_CPU, .dtypes = "f32", .run = triple_f32},
                    {.device = OG_CPU, .dtypes = "bf16", .run = triple_half},
                    {.device = OG_CPU, .dtypes = "f16", .run = triple_half})})
