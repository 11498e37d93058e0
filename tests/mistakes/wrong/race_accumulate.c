// SPDX-License-Identifier: Apache-2.0
// mistake: All shares add into the one element of the result without a lock.
// expect: dot - race|chunk|threads

#include "../../modules/operators.h"

enum { N };

static void dot_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  volatile float *sum = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i) *sum += x[i] * y[i];
}

static og_status dot(const og_call *call) {
  og_f32_mut(call->out[0])[0] = 0;
  return og_parallel_for(call, call->dim[N], 1, dot_share);
}

MODULE(race_accumulate, {.schema = "dot(Tensor x, Tensor y) -> Tensor",
                         .shape = "x[N], y[N] -> []",
                         RUN("f32", dot)})
