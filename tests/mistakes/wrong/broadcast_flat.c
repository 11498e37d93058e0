// SPDX-License-Identifier: Apache-2.0
// mistake: The smaller operand is read at the flat position of the result, beyond its end where it is broadcast.
// expect: add_broadcast y out_of_bounds_read|read|broadcast

#include "../../modules/operators.h"

static int64_t source(const og_tensor *of, const og_tensor *result, int64_t i) {
  int64_t at = 0, step = 1;
  for (int32_t d = result->ndim - 1; d >= 0; --d) {
    const int64_t index = i % result->shape[d];
    const int32_t k = d - (result->ndim - of->ndim);
    i /= result->shape[d];
    if (k < 0) continue;
    if (of->shape[k] != 1) at += index * step;
    step *= of->shape[k];
  }
  return at;
}

static og_status add_broadcast(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  const int64_t count = og_numel(call->out[0]);
  for (int64_t i = 0; i < count; ++i)
    z[i] = x[source(call->in[0], call->out[0], i)] + y[i];
  return OG_OK;
}

MODULE(broadcast_flat, {.schema = "add_broadcast(Tensor x, Tensor y) -> Tensor",
                        .shape = "x[*A], y[*B] -> [*broadcast(A, B)]",
                        RUN("f32", add_broadcast)})
