// SPDX-License-Identifier: Apache-2.0
// prelu: x, or slope * x below zero, a slope for each channel.

#include "../../modules/operators.h"

enum { N, C };  // dims of the shape rules

static og_status prelu(const og_call *call) {
  const int64_t channels = call->dim[C];
  for (int64_t i = 0; i < call->dim[N] * channels; ++i) {
    const float x = og_f32(call->in[0])[i];
    og_f32_mut(call->out[0])[i] =
        x >= 0 ? x : og_f32(call->in[1])[i % channels] * x;
  }
  return OG_OK;
}

static og_status prelu_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]), *x = og_f32(call->in[1]);
  const float *slope = og_f32(call->in[2]);
  const int64_t channels = call->dim[C];
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    for (int64_t r = 0; r < call->dim[N]; ++r) {
      const int64_t i = r * channels + c;
      og_f32_mut(call->out[0])[i] = grad[i] * (x[i] >= 0 ? 1 : slope[c]);
      sum += grad[i] * x[i];
    }
    og_f32_mut(call->out[1])[c] = sum;
  }
  return OG_OK;
}

MODULE(prelu,
       {.schema = "prelu(Tensor x, Tensor slope) -> Tensor",
        .shape = "x[*N, C], slope[C] -> [*N, C]",
        .backward = "prelu_backward(grad, x, slope) -> x, slope",
        .doc = "The parametric rectifier.",
        RUN("f32", prelu)},
       {.schema = "prelu_backward(Tensor grad, Tensor x, Tensor slope) "
                  "-> (Tensor, Tensor)",
        .shape = "grad[*N, C], x[*N, C], slope[C] -> [*N, C], [C]",
        .flags = OG_BATCH_LOOP,
        .doc = "The gradients of prelu.",
        RUN("f32", prelu_backward)})
