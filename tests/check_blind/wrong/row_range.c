// SPDX-License-Identifier: Apache-2.0
// row_range: largest minus smallest entry of each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static float entry(const og_tensor *x, int64_t i) {
  return x->dtype.code == OG_CODE_INT ? (float)og_i64(x)[i] : og_f32(x)[i];
}

static og_status row_range(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float low = entry(call->in[0], r * width), high = low;
    for (int64_t i = 1; i < width; ++i) {
      const float x = entry(call->in[0], r * width + i);
      if (x < low) low = x;
      if (x > high) high = x;
    }
    if (call->in[0]->dtype.code == OG_CODE_INT)
      og_i64_mut(call->out[0])[r] = (int64_t)(high - low);
    else
      og_f32_mut(call->out[0])[r] = high - low;
  }
  return OG_OK;
}

MODULE(row_range,
       {.schema = "row_range(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "D > 0",
        .dtype = "x: f32|i64 -> x",
        .doc = "The largest entry of the last axis minus its smallest one.",
        RUN("f32|i64", row_range)})
