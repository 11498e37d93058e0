// SPDX-License-Identifier: Apache-2.0
// bias_channels: adds a bias to each channel, with gradients.

#include "../../modules/operators.h"

enum { N, C, L };  // dims of the shape rules

static og_status bias_channels(const og_call *call) {
  const int64_t length = call->dim[L], channels = call->dim[C];
  for (int64_t i = 0; i < call->dim[N] * channels * length; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] + og_f32(call->in[1])[i / length % channels];
  return OG_OK;
}

static og_status bias_channels_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *bias = og_f32_mut(call->out[1]);
  const int64_t length = call->dim[L], channels = call->dim[C];
  for (int64_t c = 0; c < channels; ++c) bias[c] = 0;
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = (n * channels + c) * length;
      float sum = 0;
      for (int64_t l = 0; l < length; ++l) {
        og_f32_mut(call->out[0])[at + l] = grad[at + l];
        sum += grad[at + l];
      }
      bias[c] = sum;
    }
  return OG_OK;
}

MODULE(bias_channels,
       {.schema = "bias_channels(Tensor x, Tensor bias) -> Tensor",
        .shape = "x[N, C, L], bias[C] -> [N, C, L]",
        .backward = "bias_channels_backward(grad) -> x, bias",
        .doc = "x plus the bias of its channel.",
        RUN("f32", bias_channels)},
       {.schema = "bias_channels_backward(Tensor grad) -> (Tensor, Tensor)",
        .shape = "grad[N, C, L] -> [N, C, L], [C]",
        .doc = "The gradients of bias_channels.",
        RUN("f32", bias_channels_backward)})
