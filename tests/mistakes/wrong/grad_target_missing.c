// SPDX-License-Identifier: Apache-2.0
// mistake: The backward map names x only, though the result depends on weight, which then never trains.
// expect: scale_rows|scale_rows_backward weight gradient|missing_gradient|target

#include <opgraft/op.h>

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i] * w[i % width];
  return OG_OK;
}

static const og_kernel scale_rows_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = forward},
};
static const og_kernel scale_rows_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = forward},
};

static const og_op ops[] = {
    {
        .schema = "scale_rows(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .backward = "scale_rows_backward(grad, weight) -> x",
        .kernels = OG_KERNELS(scale_rows_kernels),
    },
    {
        .schema = "scale_rows_backward(Tensor grad, Tensor weight) -> Tensor",
        .shape = "grad[*N, D], weight[D] -> [*N, D]",
        .kernels = OG_KERNELS(scale_rows_backward_kernels),
    },
};
OG_MODULE(grad_target_missing, ops)
