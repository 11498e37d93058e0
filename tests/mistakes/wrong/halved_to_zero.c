// SPDX-License-Identifier: Apache-2.0
// mistake: The i32 kernel divides negative numbers towards zero, the i64 kernel downwards.
// expect: halve - dtype|type|values

#include "../../modules/operators.h"

enum { N };

static og_status halve_i64(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const int64_t x = og_i64(call->in[0])[i];
    og_i64_mut(call->out[0])[i] = (x - (x % 2 != 0 && x < 0)) / 2;
  }
  return OG_OK;
}

static og_status halve_i32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i32_mut(call->out[0])[i] = og_i32(call->in[0])[i] / 2;
  return OG_OK;
}

MODULE(
    halved_to_zero,
    {.schema = "halve(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .dtype = "x: i32|i64 -> x",
     .backward = "none",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "i64", .run = halve_i64},
                        {.device = OG_CPU, .dtypes = "i32", .run = halve_i32})})
