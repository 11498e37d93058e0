// SPDX-License-Identifier: Apache-2.0
// mistake: Only the second input is read without its byte_offset.
// expect: add_bias bias byte_offset|offset|layout

#include "../../modules/operators.h"

enum { N, D };

static void add_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *bias = (const float *)call->in[1]->data;
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = x[r * width + i] + bias[i];
}

static og_status add_bias(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, add_rows);
}

MODULE(offset_ignored_second,
       {.schema = "add_bias(Tensor x, Tensor bias) -> Tensor",
        .shape = "x[*N, D], bias[D] -> [*N, D]",
        RUN("f32", add_bias)})
