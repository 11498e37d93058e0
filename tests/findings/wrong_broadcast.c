// SPDX-License-Identifier: Apache-2.0
// A sum of two tensors; which element goes with which is right for equal
// shapes and rows only.

#include <opgraft/op.h>

static og_status add(const og_call *call) {
  const float *b = og_f32(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t x_count = og_numel(call->in[0]),
                b_count = og_numel(call->in[1]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    y[i] = x[i % x_count] + b[i % b_count];
  return OG_OK;
}

static const og_kernel add_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add},
};

static const og_op ops[] = {
    {
        .schema = "add(Tensor x, Tensor b) -> Tensor",
#ifndef REPAIRED
        .shape = "x[*A], b[*B] -> [*broadcast(A, B)]",
#else
        .shape = "x[*N, D], b[D] -> [*N, D]",
#endif
        .kernels = OG_KERNELS(add_kernels),
    },
};
OG_MODULE(wrong_broadcast, ops)
