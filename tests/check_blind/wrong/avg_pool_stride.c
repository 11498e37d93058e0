// SPDX-License-Identifier: Apache-2.0
// avg_pool_stride: 1-D average pooling with a window and a stride.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[L];
  const int64_t stride = call->attr[1].i;
  const int64_t places = call->out[0]->shape[call->out[0]->ndim - 1];
  for (int64_t n = begin; n < end; ++n) {
    const float *x = og_f32(call->in[0]) + n * length;
    for (int64_t p = 0; p < places; ++p) {
      const int64_t from = p * stride;
      const int64_t to = from + stride < length ? from + stride : length;
      float sum = 0;
      for (int64_t i = from; i < to; ++i) sum += x[i];
      og_f32_mut(call->out[0])[n * places + p] = sum / (float)(to - from);
    }
  }
}

static og_status avg_pool_stride(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, lines);
}

MODULE(avg_pool_stride,
       {.schema = "avg_pool_stride(Tensor x, int kernel=2, int stride=2) -> "
                  "Tensor",
        .shape = "x[*N, L] -> [*N, (L - kernel) // max(stride, 1) + 1]",
        .where = "kernel > 0, stride > 0, stride <= kernel, L >= kernel",
        .doc = "The mean of kernel neighbours, every stride elements.",
        RUN("f32", avg_pool_stride)})
