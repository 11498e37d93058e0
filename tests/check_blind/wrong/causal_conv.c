// SPDX-License-Identifier: Apache-2.0
// causal_conv: depthwise causal convolution over time, with gradients.

#include "../../modules/operators.h"

enum { N, T, C, K };  // dims of the shape rules

static og_status causal_conv(const og_call *call) {
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  const int64_t length = call->dim[T], channels = call->dim[C];
  for (int64_t i = 0; i < call->dim[N] * length * channels; ++i) {
    const int64_t c = i % channels, t = i / channels % length;
    float sum = 0;
    for (int64_t k = 0; k < call->dim[K] && k <= t; ++k)
      sum += weight[k * channels + c] * x[i - k * channels];
    og_f32_mut(call->out[0])[i] = sum;
  }
  return OG_OK;
}

static og_status causal_conv_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  const float *weight = og_f32(call->in[2]);
  float *grad_x = og_f32_mut(call->out[0]);
  float *grad_weight = og_f32_mut(call->out[1]);
  const int64_t length = call->dim[T], channels = call->dim[C];
  const int64_t total = call->dim[N] * length * channels;
  for (int64_t i = 0; i < total; ++i) grad_x[i] = 0;
  for (int64_t i = 0; i < call->dim[K] * channels; ++i) grad_weight[i] = 0;
  for (int64_t i = 0; i < total; ++i) {
    const int64_t c = i % channels, t = i / channels % length;
    for (int64_t k = 0; k < call->dim[K] && k <= t; ++k) {
      grad_x[i - k * channels] += grad[i] * weight[k * channels + c];
      if (i < length * channels)
        grad_weight[k * channels + c] += grad[i] * x[i - k * channels];
    }
  }
  return OG_OK;
}

MODULE(causal_conv,
       {.schema = "causal_conv(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[N, T, C], weight[K, C] -> [N, T, C]",
        .backward = "causal_conv_backward(grad, x, weight) -> x, weight",
        .doc = "Result t is the sum of weight[k] * x[t - k].",
        RUN("f32", causal_conv)},
       {.schema = "causal_conv_backward(Tensor grad, Tensor x, Tensor weight) "
                  "-> (Tensor, Tensor)",
        .shape = "grad[N, T, C], x[N, T, C], weight[K, C] -> [N, T, C], [K, C]",
        .doc = "The gradients of causal_conv.",
        RUN("f32", causal_conv_backward)})
