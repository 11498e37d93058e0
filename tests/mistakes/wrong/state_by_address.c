// SPDX-License-Identifier: Apache-2.0
// mistake: The sum of the weight is kept by its address, and not made again when other values lie there.
// expect: normalize - state|repetition|repeatable
//
// Rows over the sum of a weight.

#include "../../modules/operators.h"

enum { N, D };

static const float *kept_weight;
static float kept_sum;

static og_status normalize(const og_call *call) {
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[D];
  if (weight != kept_weight) {
    kept_sum = 1;
    for (int64_t i = 0; i < n; ++i) kept_sum += weight[i] * weight[i];
    kept_weight = weight;
  }
  for (int64_t i = 0; i < call->dim[N] * n; ++i) y[i] = x[i] / kept_sum;
  return OG_OK;
}

MODULE(state_by_address,
       {.schema = "normalize(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .dtype = "x: f32, weight: x -> x",
        RUN("f32", normalize)})
