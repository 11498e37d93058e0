// SPDX-License-Identifier: Apache-2.0
// dilated_conv: depthwise convolution with gaps, as long as its input.

#include "../../modules/operators.h"

enum { N, C, L, K };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[L], taps = call->dim[K];
  const int64_t dilation = call->attr[0].i;
  for (int64_t n = begin; n < end; ++n) {
    const double *x = og_f64(call->in[0]) + n * length;
    const double *weight = og_f64(call->in[1]) + n % call->dim[C] * taps;
    for (int64_t l = 0; l < length; ++l) {
      double sum = 0;
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t at = l + (k - taps / 2) * dilation;
        if (at >= 0 && at < length) sum += weight[k] * x[at];
      }
      og_f64_mut(call->out[0])[n * length + l] = sum;
    }
  }
}

static og_status dilated_conv(const og_call *call) {
  return og_parallel_for(call, call->dim[N] * call->dim[C], 2, lines);
}

MODULE(dilated_conv,
       {.schema = "dilated_conv(Tensor x, Tensor weight, int dilation=1) -> "
                  "Tensor",
        .shape = "x[*N, C, L], weight[C, K] -> [*N, C, L]",
        .where = "K % 2 == 1, dilation > 0, dilation <= 32",
        .doc = "Result l is the sum of weight[k] * x[l + (k - K // 2) * "
               "dilation]; x is zero outside.",
        RUN("f64", dilated_conv)})
