// SPDX-License-Identifier: Apache-2.0
// avg_pool_ceil: 1-D average pooling whose last window may be cut.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t kernel = call->attr[0].i, stride = call->attr[1].i;
  const int64_t length = call->dim[L];
  const int64_t places = (length - kernel + stride - 1) / stride + 1;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t p = 0; p < places; ++p) {
      const double *x = og_f64(call->in[0]) + n * length + p * stride;
      const int64_t left = length - p * stride;
      const int64_t count = left < kernel ? left : kernel;
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += x[i];
      og_f64_mut(call->out[0])[n * places + p] = sum / (double)count;
    }
}

static og_status avg_pool_ceil(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, lines);
}

MODULE(avg_pool_ceil,
       {.schema = "avg_pool_ceil(Tensor x, int kernel=3, int stride=2) -> "
                  "Tensor",
        .shape = "x[*N, L] -> [*N, ceildiv(L - kernel, max(stride, 1)) + 1]",
        .where = "kernel > 0, stride > 0, stride <= kernel, L >= kernel",
        .doc = "The mean of kernel neighbours, every stride entries; the last "
               "window is cut at the end.",
        RUN("f64", avg_pool_ceil)})
