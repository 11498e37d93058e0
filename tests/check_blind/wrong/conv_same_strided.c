// SPDX-License-Identifier: Apache-2.0
// conv_same_strided: depthwise convolution with "same" padding and a stride.

#include "../../modules/operators.h"

enum { N, C, L, K };  // dims of the shape rule

static og_status conv_same_strided(const og_call *call) {
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t length = call->dim[L], taps = call->dim[K];
  const int64_t stride = call->attr[0].i;
  const int64_t places = (length + stride - 1) / stride;
  const int64_t padding = (places - 1) * stride + taps - length;
  const int64_t left = padding / 2;
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t c = 0; c < call->dim[C]; ++c) {
      const float *line = x + (n * call->dim[C] + c) * length;
      for (int64_t p = 0; p < places; ++p) {
        float sum = 0;
        for (int64_t k = 0; k < taps; ++k) {
          const int64_t at = p * stride - left + k;
          if (at >= 0 && at < length) sum += line[at] * weight[c * taps + k];
        }
        y[(n * call->dim[C] + c) * places + p] = sum;
      }
    }
  return OG_OK;
}

MODULE(conv_same_strided,
       {.schema = "conv_same_strided(Tensor x, Tensor weight, int stride=1) "
                  "-> Tensor",
        .shape = "x[*N, C, L], weight[C, K] -> [*N, C, ceildiv(L, stride)]",
        .where = "K > 0, stride > 0, stride <= 8",
        .doc = "One filter for each channel. The input is padded with zeros so "
               "that the result has ceil(L / stride) places: max((places - 1) "
               "* stride + K - L, 0) zeros, the smaller half before.",
        RUN("f32", conv_same_strided)})
