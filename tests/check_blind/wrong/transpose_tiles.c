// SPDX-License-Identifier: Apache-2.0
// transpose_tiles: the transpose of a matrix, tiles of 8 x 8.

#include "../../modules/operators.h"

enum { N, H, W };  // dims of the shape rule
enum { TILE = 8 };

static void tile_run(const float *x, float *y, int64_t height, int64_t width,
                     int64_t h0, int64_t w0) {
  const int64_t rows = height - h0 < TILE ? height - h0 : TILE;
  const int64_t columns = rows < TILE && width - w0 < TILE ? width - w0 : TILE;
  for (int64_t h = h0; h < h0 + rows; ++h)
    for (int64_t w = w0; w < w0 + columns; ++w)
      y[w * height + h] = x[h * width + w];
}

static og_status transpose_tiles(const og_call *call) {
  const int64_t height = call->dim[H], width = call->dim[W];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t h = 0; h < height; h += TILE)
      for (int64_t w = 0; w < width; w += TILE)
        tile_run(og_f32(call->in[0]) + n * height * width,
                 og_f32_mut(call->out[0]) + n * height * width, height, width,
                 h, w);
  return OG_OK;
}

MODULE(transpose_tiles, {.schema = "transpose_tiles(Tensor x) -> Tensor",
                         .shape = "x[*N, H, W] -> [*N, W, H]",
                         .doc = "The last two axes change places.",
                         RUN("f32", transpose_tiles)})
