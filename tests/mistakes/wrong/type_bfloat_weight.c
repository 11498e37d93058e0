// SPDX-License-Identifier: Apache-2.0
// mistake: The bf16 path forgets the weight; the f32 path is right.
// expect: weighted - dtype|type|bf16|value

#include "../../modules/operators.h"

enum { N, D };

static og_status weighted_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i] * w[i % width];
  return OG_OK;
}

static og_status weighted_bf16(const og_call *call) {
  const og_bfloat *x = og_bf16(call->in[0]);
  og_bfloat *y = og_bf16_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i)
    y[i] = og_bfloat_from_float(og_bfloat_to_float(x[i]));
  return OG_OK;
}

MODULE(type_bfloat_weight,
       {.schema = "weighted(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .dtype = "x: f32|bf16, weight: x -> x",
        .kernels = KERNELS(
            {.device = OG_CPU, .dtypes = "f32", .run = weighted_f32},
            {.device = OG_CPU, .dtypes = "bf16", .run = weighted_bf16})})
