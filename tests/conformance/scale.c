// SPDX-License-Identifier: Apache-2.0
// y = x * weight over the last axis, with its gradient.
#include <opgraft/op.h>
enum { N, D };  // the dims of the shape rules, in order of first appearance

static og_status scale_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i)
    y[i] = x[i] * weight[i % call->dim[D]];
  return OG_OK;
}
static og_status scale_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  const float *weight = og_f32(call->in[2]);
  float *grad_x = og_f32_mut(call->out[0]), *sum = og_f32_mut(call->out[1]);
  for (int64_t d = 0; d < call->dim[D]; ++d) sum[d] = 0;
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i) {
    grad_x[i] = grad[i] * weight[i % call->dim[D]];
    sum[i % call->dim[D]] += grad[i] * x[i];
  }
  return OG_OK;
}
static const og_kernel forward[] = {
    {OG_CPU, .dtypes = "f32", .run = scale_f32}};
static const og_kernel backward[] = {
    {OG_CPU, .dtypes = "f32", .run = scale_backward_f32}};
static const og_op ops[] = {
    {.schema = "scale(Tensor x, Tensor weight) -> Tensor",
     .shape = "x[*N, D], weight[D] -> [*N, D]",
     .backward = "scale_backward(grad, x, weight) -> x, weight",
     .kernels = OG_KERNELS(forward)},
    {.schema = "scale_backward(Tensor grad, Tensor x, Tensor weight) -> "
               "(Tensor, Tensor)",
     .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
     .kernels = OG_KERNELS(backward)}};
OG_MODULE(scale, ops)
