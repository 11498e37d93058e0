// SPDX-License-Identifier: Apache-2.0
// roll_plane: a cyclic shift of rows and columns.

#include "../../modules/operators.h"

enum { N, H, W };  // dims of the shape rule

static int64_t wrap(int64_t i, int64_t size) {
  const int64_t r = i % size;
  return r < 0 ? r + size : r;
}

static void planes(const og_call *call, int64_t begin, int64_t end) {
  const int64_t height = call->dim[H], width = call->dim[W];
  const int64_t *shift = call->attr[0].ints;
  for (int64_t n = begin; n < end; ++n) {
    const float *x = og_f32(call->in[0]) + n * height * width;
    float *y = og_f32_mut(call->out[0]) + n * height * width;
    for (int64_t h = 0; h < height; ++h) {
      const int64_t row = wrap(h - shift[0], height);
      for (int64_t w = 0; w < width; ++w)
        y[h * width + w] = x[row * width + wrap(w - *shift, width)];
    }
  }
}

static og_status roll_plane(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, planes);
}

MODULE(roll_plane,
       {.schema = "roll_plane(Tensor x, int[2] shifts) -> Tensor",
        .shape = "x[*N, H, W] -> [*N, H, W]",
        .where = "len(shifts) == 2, shifts[0] > -1000, shifts[0] < 1000, "
                 "shifts[1] > -1000, shifts[1] < 1000",
        .doc = "Element (h, w) moves to (h + shifts[0], w + shifts[1]), around "
               "the edges.",
        RUN("f32", roll_plane)})
