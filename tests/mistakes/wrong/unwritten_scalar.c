// SPDX-License-Identifier: Apache-2.0
// mistake: A tensor without dims is taken for an empty one.
// expect: sigmoid - unwritten

#include <math.h>
#include <opgraft/op.h>

static og_status sigmoid(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = call->in[0]->ndim > 0 ? 1 : 0;
  for (int32_t i = 0; i < call->in[0]->ndim; ++i)
    count *= call->in[0]->shape[i];
  for (int64_t i = 0; i < count; ++i) y[i] = 1 / (1 + expf(-x[i]));
  return OG_OK;
}

static const og_kernel sigmoid_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sigmoid},
};

static const og_op ops[] = {
    {
        .schema = "sigmoid(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .kernels = OG_KERNELS(sigmoid_kernels),
    },
};
OG_MODULE(unwritten_scalar, ops)
