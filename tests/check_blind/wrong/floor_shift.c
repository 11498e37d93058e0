// SPDX-License-Identifier: Apache-2.0
// floor_shift: floor(x / divisor) + offset of integers.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static int64_t floor_of(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static og_status shift_i64(const og_call *call) {
  const int64_t divisor = call->attr[0].i, offset = call->attr[1].i;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i64_mut(call->out[0])[i] =
        floor_of(og_i64(call->in[0])[i], divisor) + offset;
  return OG_OK;
}

static og_status shift_i32(const og_call *call) {
  const int32_t divisor = (int32_t)call->attr[0].i;
  const int32_t offset = (int32_t)call->attr[1].i;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_i32_mut(call->out[0])[i] = og_i32(call->in[0])[i] / divisor + offset;
  return OG_OK;
}

MODULE(
    floor_shift,
    {.schema = "floor_shift(Tensor x, int divisor=2, int offset=0) "
               "-> Tensor",
     .shape = "x[*N] -> [*N]",
     .where = "divisor > 0, divisor < 1000, offset > -1000, offset < 1000",
     .dtype = "x: i32|i64 -> x",
     .backward = "none",
     .doc = "The largest integer that is not above x / divisor, plus "
            "offset.",
     .kernels = KERNELS({.device = OG_CPU, .dtypes = "i64", .run = shift_i64},
                        {.device = OG_CPU, .dtypes = "i32", .run = shift_i32})})
