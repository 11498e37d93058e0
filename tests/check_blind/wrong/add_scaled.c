// SPDX-License-Identifier: Apache-2.0
// add_scaled: x + alpha * y.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *y = (const float *)call->in[1]->data;
  const float alpha = (float)call->attr[0].f;
  for (int64_t i = begin; i < end; ++i)
    og_f32_mut(call->out[0])[i] = x[i] + alpha * y[i];
}

static og_status add_scaled(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1024, elements);
}

MODULE(add_scaled,
       {.schema = "add_scaled(Tensor x, Tensor y, float alpha=1.0) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .doc = "x plus a multiple of y.",
        RUN("f32", add_scaled)})
