// SPDX-License-Identifier: Apache-2.0
// mistake: The i32 path clamps from above only.
// expect: clamp - dtype|type|i32|value

#include "../../modules/operators.h"

enum { N };

static og_status clamp_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float low = (float)call->attr[0].i, high = (float)call->attr[1].i;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
  return OG_OK;
}

static og_status clamp_i32(const og_call *call) {
  const int32_t *x = og_i32(call->in[0]);
  int32_t *y = og_i32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] > call->attr[1].i ? (int32_t)call->attr[1].i : x[i];
  return OG_OK;
}

MODULE(
    type_integer_clamp,
    {.schema = "clamp(Tensor x, int low=-1, int high=1) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .where = "low <= high, low > -1000, high < 1000",
     .dtype = "x: f32|i32 -> x",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "f32", .run = clamp_f32},
                        {.device = OG_CPU, .dtypes = "i32", .run = clamp_i32})})
