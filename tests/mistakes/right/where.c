// SPDX-License-Identifier: Apache-2.0
// where(condition, x, y) with full broadcasting and any strides, of three
// types.

#include "../../modules/operators.h"

// Reads an operand at element i of the result, through its own strides.
static const char *operand_at(const og_tensor *t, const og_tensor *result,
                              int64_t i) {
  int64_t at = 0;
  for (int32_t d = result->ndim - 1; d >= 0; --d) {
    const int64_t k = i % result->shape[d];
    const int32_t own = d - (result->ndim - t->ndim);
    i /= result->shape[d];
    if (own >= 0 && t->shape[own] != 1) at += k * t->strides[own];
  }
  return (const char *)og_data(t) + at * (t->dtype.bits / 8);
}

static void where_share(const og_call *call, int64_t begin, int64_t end) {
  const og_tensor *result = call->out[0];
  const size_t item = result->dtype.bits / 8;
  for (int64_t i = begin; i < end; ++i) {
    const int pick = *operand_at(call->in[0], result, i) != 0;
    memcpy((char *)og_data(result) + (size_t)i * item,
           operand_at(call->in[pick ? 1 : 2], result, i), item);
  }
}

static og_status where(const og_call *call) {
  return og_parallel_for(call, og_numel(call->out[0]), 32, where_share);
}

MODULE(where,
       {.schema = "where(Tensor condition, Tensor x, Tensor y) -> Tensor",
        .shape = "condition[*A], x[*B], y[*C] -> [*broadcast(A, B, C)]",
        .dtype = "condition: bool, x: f32|f64|i64, y: x -> x",
        .strides = "any",
        RUN("f32|f64|i64", where)})
