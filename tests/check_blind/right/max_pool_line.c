// SPDX-License-Identifier: Apache-2.0
// max_pool_line: 1-D max pooling with a window, a stride and padding.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t kernel = call->attr[0].i, stride = call->attr[1].i;
  const int64_t padding = call->attr[2].i, length = call->dim[L];
  const int64_t places = (length + 2 * padding - kernel) / stride + 1;
  for (int64_t n = begin; n < end; ++n) {
    const float *x = og_f32(call->in[0]) + n * length;
    for (int64_t p = 0; p < places; ++p) {
      const int64_t from = p * stride - padding, to = from + kernel;
      float top = -INFINITY;
      for (int64_t i = from < 0 ? 0 : from; i < to && i < length; ++i)
        if (x[i] > top) top = x[i];
      og_f32_mut(call->out[0])[n * places + p] = top;
    }
  }
}

static og_status max_pool_line(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, lines);
}

MODULE(max_pool_line,
       {.schema = "max_pool_line(Tensor x, int kernel=3, int stride=2, int "
                  "padding=1) "
                  "-> Tensor",
        .shape = "x[*N, L] -> [*N, (L + 2 * padding - kernel) // max(stride, "
                 "1) + 1]",
        .where = "L > 0, kernel > 0, stride > 0, padding >= 0, 2 * padding <= "
                 "kernel, "
                 "L + 2 * padding >= kernel",
        .doc = "The largest entry under each window.",
        RUN("f32", max_pool_line)})
