// SPDX-License-Identifier: Apache-2.0
// conv_valid: 1-D convolution with dilation, without padding.

#include "../../modules/operators.h"

enum { N, L, K };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const float *weight = og_f32(call->in[1]);
  const int64_t length = call->dim[L], taps = call->dim[K];
  const int64_t dilation = call->attr[0].i;
  const int64_t row = length - dilation * (taps - 1);
  const int64_t span = dilation > 1 ? dilation * (taps - 1) : taps;
  const int64_t places = length - span + 1;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t p = 0; p < places; ++p) {
      const float *x = og_f32(call->in[0]) + n * length + p;
      float sum = 0;
      for (int64_t k = 0; k < taps; ++k) sum += weight[k] * x[k * dilation];
      og_f32_mut(call->out[0])[n * row + p] = sum;
    }
}

static og_status conv_valid(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, lines);
}

MODULE(conv_valid,
       {.schema = "conv_valid(Tensor x, Tensor weight, int dilation=1) -> "
                  "Tensor",
        .shape = "x[*N, L], weight[K] -> [*N, L - dilation * (K - 1)]",
        .where = "K > 0, dilation > 0, dilation <= 16, L > dilation * (K - 1)",
        .doc = "Result p is the sum of weight[k] * x[p + k * dilation].",
        RUN("f32", conv_valid)})
