// SPDX-License-Identifier: Apache-2.0
// sum_given: the sum of those tensors of a list that are given.

#include <opgraft/op.h>
#include <string.h>

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

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sum_given}};

static const og_op ops[] = {
    {
        .schema = "sum_given(Tensor x, Tensor?[] others) -> Tensor",
        .shape = "x[N, D], others[][N, D] -> [N, D]",
        .doc = "x plus every tensor of the list; holes count as zero.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(sum_given, ops)
