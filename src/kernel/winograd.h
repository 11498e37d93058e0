// SPDX-License-Identifier: Apache-2.0
// Convolutions of 3x3 taps, stride 1, as 16 contractions: F(2x2, 3x3).
// Included by conv.h.
//
// A tile of 2x2 pixels reads 4x4 elements. Both these and the 3x3 weights are
// transformed to 4x4 points; at each point the results of a tile are the sums
// over channels of transformed element * transformed weight, and four pixels
// are sums of the 16. That is 16 multiplications for what takes 36 otherwise.
//
// Larger tiles save more and round more: with the best points that we found,
// F(4x4, 3x3) has three to six times eager mode's distance to float64, this one
// less than twice (tests/python/graph/test_winograd.py).
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// 2016.

#ifndef OG_KERNEL_WINOGRAD_H
#define OG_KERNEL_WINOGRAD_H

#include <stddef.h>
#include <stdint.h>

struct og_conv;

enum {
  OG_WINOGRAD_SIDE = 2,  // pixels of a tile, in both dims
  OG_WINOGRAD_READS = 4,
  OG_WINOGRAD_POINTS = 16,
  OG_WINOGRAD_TAPS = 9,
  // Channels that one chain of sums adds up: longer ones would round more than
  // the transforms do.
  OG_WINOGRAD_RUN = 64,
};

// Element c of tile t at point p is data[p * point + t * tile + c].
typedef struct og_winograd_tiles {
  float *data;
  int64_t point, tile;
} og_winograd_tiles;

typedef struct og_winograd_kernels {
  // w[n, channels, 3, 3] as panels [panel_begin, panel_end) of each point:
  // point p begins at to + p * point, and holds them as og_gemm takes them.
  void (*pack)(const float *w, int64_t n, int64_t channels, int64_t panel_begin,
               int64_t panel_end, int64_t point, float *to);
  // Rows [begin, end) of an image's tiles: all their channels, of which the
  // last vector is filled up with zeros. Channels of x lie `x_stride` elements
  // apart. The scratch has og_winograd_scratch(of, end - begin) floats.
  void (*read)(const struct og_conv *of, const float *x, int64_t x_stride,
               int64_t channels, int64_t begin, int64_t end,
               og_winograd_tiles to, float *scratch);
  // The pixels of these rows: y[channel * y_stride + pixel] = `bias` (NULL:
  // none) + sums of the tile's points. y is the first of them. Returns 1 where
  // one is infinite or NaN: what the tile reads may be, or may have overflowed
  // on the way, and is not what that pixel's taps read.
  int (*write)(const struct og_conv *of, og_winograd_tiles from,
               const float *bias, int64_t channels, int64_t begin, int64_t end,
               float *y, int64_t y_stride, float *scratch);
} og_winograd_kernels;
const og_winograd_kernels *og_winograd_kernels_used(void);

// Whether it is such a convolution.
int og_winograd_takes(const struct og_conv *of);
// Of an image's tiles.
int64_t og_winograd_rows(const struct og_conv *of);
int64_t og_winograd_columns(const struct og_conv *of);
// Floats; `rows` of an image's tiles.
int64_t og_winograd_scratch(const struct og_conv *of, int64_t rows);

// Floats from point to point of packed weights, and the bytes of all.
int64_t og_winograd_point(int64_t n, int64_t channels);
size_t og_winograd_bytes(int64_t n, int64_t channels);

#endif  // OG_KERNEL_WINOGRAD_H
