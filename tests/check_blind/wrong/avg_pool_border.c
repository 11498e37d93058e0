// SPDX-License-Identifier: Apache-2.0
// avg_pool_border: 2-D average pooling with padding that does not count.

#include "../../modules/operators.h"

enum { N, H, W };  // dims of the shape rule

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static void planes(const og_call *call, int64_t begin, int64_t end) {
  const int64_t height = call->dim[H], width = call->dim[W];
  const int64_t kernel = call->attr[0].i, padding = call->attr[1].i;
  const int64_t rows = height + 2 * padding - kernel + 1;
  const int64_t columns = width + 2 * padding - kernel + 1;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t p = 0; p < rows * columns; ++p) {
      const float *x = og_f32(call->in[0]) + n * height * width;
      const int64_t i = p / columns - padding, j = p % columns - padding;
      const int64_t top = most(i, 0), bottom = least(i + kernel, height);
      float sum = 0;
      for (int64_t a = top; a < bottom; ++a)
        for (int64_t b = most(j, 0); b < least(j + kernel, width); ++b)
          sum += x[a * width + b];
      og_f32_mut(call->out[0])[n * rows * columns + p] =
          sum / (float)((bottom - top) * kernel);
    }
}

static og_status avg_pool_border(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, planes);
}

MODULE(avg_pool_border,
       {.schema = "avg_pool_border(Tensor x, int kernel=3, int padding=1) "
                  "-> Tensor",
        .shape = "x[*N, H, W] -> [*N, H + 2 * padding - kernel + 1, "
                 "W + 2 * padding - kernel + 1]",
        .where = "kernel > 0, padding >= 0, padding < kernel, H > 0, W > 0, "
                 "H + 2 * padding >= kernel, W + 2 * padding >= kernel",
        .doc = "The mean of the cells under a window that moves by one. Only "
               "cells of the input count.",
        RUN("f32", avg_pool_border)})
