// SPDX-License-Identifier: Apache-2.0
// Adds a bias less its mean. The rule says that elements of the bias do not
// meet.

#include <opgraft/op.h>

static og_status add_centered(const og_call *call) {
  const float *x = og_f32(call->in[0]), *bias = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t x_count = og_numel(call->in[0]);
  const int64_t bias_count = og_numel(call->in[1]);
  float mean = 0;
  for (int64_t i = 0; i < bias_count; ++i) mean += bias[i] / (float)bias_count;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    y[i] = x[i % x_count] + bias[i % bias_count] - mean;
  return OG_OK;
}

static const og_kernel add_centered_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_centered},
};

static const og_op ops[] = {
    {
        .schema = "add_centered(Tensor x, Tensor bias) -> Tensor",
#ifndef REPAIRED
        .shape = "x[*A], bias[*B] -> [*broadcast(A, B)]",
#else
        .shape = "x[*N, D], bias[D] -> [*N, D]",
#endif
        .kernels = OG_KERNELS(add_centered_kernels),
    },
};
OG_MODULE(mixed_pack, ops)
