// SPDX-License-Identifier: Apache-2.0
// sum_given: the sum of those tensors of a list that are given.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status sum_given(const og_call *call) {
  const float *base = og_f32(call->in[0]);
  const og_tensor_list *list = &call->in_list[1];
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = og_numel(call->out[0]);
  memcpy(y, base, (size_t)count * sizeof *y);
  for (int64_t t = 0; t < list->count; ++t) {
    const float *x = og_f32(list->tensors[t]);
    for (int64_t i = 0; i < count; ++i) y[i] += x[i];
  }
  return OG_OK;
}

MODULE(sum_given,
       {.schema = "sum_given(Tensor x, Tensor?[] others) -> Tensor",
        .shape = "x[N, D], others[][N, D] -> [N, D]",
        .doc = "x plus every tensor of the list; holes count as zero.",
        RUN("f32", sum_given)})
