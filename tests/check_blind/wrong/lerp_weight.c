// SPDX-License-Identifier: Apache-2.0
// lerp_weight: x + weight * (y - x) with a weight for each element.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]), *y = og_f32(call->in[1]);
  const float *weight = og_f32(call->in[2]);
  for (int64_t i = begin; i < end; ++i)
    og_f32_mut(call->out[0])[i] = x[i] + weight[i] * (y[i] - x[i]);
}

static og_status lerp_weight(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1024, elements);
}

MODULE(lerp_weight,
       {.schema = "lerp_weight(Tensor x, Tensor y, Tensor weight) -> Tensor",
        .shape = "x[*N], y[*N], weight[*N] -> [*N]",
        .dtype = "x: f32, y: x, weight: x -> x",
        .strides = "contiguous",
        .row = "y + weight * (x - y)",
        .doc = "Between x (weight 0) and y (weight 1).",
        RUN("f32", lerp_weight)})
