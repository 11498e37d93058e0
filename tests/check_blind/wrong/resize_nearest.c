// SPDX-License-Identifier: Apache-2.0
// resize_nearest: an image row at another size, nearest neighbour.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[L], size = call->attr[0].i;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t i = 0; i < size; ++i) {
      const double at = (double)i * (double)length / (double)size;
      og_u8_mut(call->out[0])[n * size + i] =
          og_u8(call->in[0])[n * length + llround(at)];
    }
}

static og_status resize_nearest(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, lines);
}

MODULE(resize_nearest,
       {.schema = "resize_nearest(Tensor x, SymInt size) -> Tensor",
        .shape = "x[*N, L] -> [*N, size]",
        .where = "L > 0, size > 0",
        .backward = "none",
        .doc = "Result i is element floor(i * L / size).",
        RUN("u8", resize_nearest)})
