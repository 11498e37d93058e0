// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling over planes of floats: [height, width], rows in one
// run. Included by kernel.h.

#ifndef OG_KERNEL_CONV_H
#define OG_KERNEL_CONV_H

#include <stddef.h>
#include <stdint.h>

// Element (y, x) of the result reads (y * stride - padding + tap * dilation,
// ..) of the operand, zeros beyond its edges. By dim: height, width.
typedef struct og_conv {
  int64_t in[2], out[2], taps[2];
  int64_t stride[2], padding[2], dilation[2];
  // Of a plane that is one of several which a channel's pixels read: steps of a
  // panel that are the other planes', and those of them that stand before.
  int64_t other_steps, steps_before;
} og_conv;

static inline int64_t og_conv_taps(const og_conv *of) {
  return of->taps[0] * of->taps[1];
}
// Steps of a panel from one channel to the next.
static inline int64_t og_conv_steps(const og_conv *of) {
  return og_conv_taps(of) + of->other_steps;
}
static inline int64_t og_conv_pixels(const og_conv *of) {
  return of->out[0] * of->out[1];
}

enum { OG_CONV_INDEX_MAX = 1 << 24 };  // floats are whole numbers up to here

// Of an image: y[i][pixels of rows [begin, end)] = bias[i] + channel
// (first + i) / each of x by the taps w[i], for i < count.
typedef struct og_conv_channels {
  const float *x;
  int64_t x_stride;  // floats from channel to channel
  int64_t first, count, each;
  const float *w;     // [count][taps]
  const float *bias;  // NULL: none
  int64_t bias_stride;
  int64_t begin, end;
  float *y;
  int64_t y_stride;
} og_conv_channels;

typedef struct og_conv_kernels {
  // A group as the second factor of a contraction, whose columns are the pixels
  // of the result and whose step c * og_conv_steps + steps_before + t is tap t
  // of channel c: panels [begin, end) of OG_PANEL pixels, as og_gemm takes
  // them. Channels of x lie `x_stride` elements apart; x NULL: they are zeros.
  void (*pack)(const og_conv *of, const float *x, int64_t x_stride,
               int64_t channels, int64_t panel_begin, int64_t panel_end,
               float *to);
  // Channels by their own taps. The scratch has og_conv_scratch floats.
  void (*channels)(const og_conv *of, const og_conv_channels *channels,
                   float *scratch);
  // One pixel of all channels: y[rows] = w[rows, k] x[k].
  void (*dots)(const float *x, const float *w, int64_t rows, int64_t k,
               float *y);
  // y[pixels] = the largest element of x that each pixel's taps read, edges
  // left out; NaN where one is NaN. `index` (NULL: it is not computed) = its
  // place in x, of equal ones the first, of NaNs the last; x has at most
  // OG_CONV_INDEX_MAX elements then. The scratch has og_conv_scratch floats.
  void (*largest)(const og_conv *of, const float *x, float *y, int64_t *index,
                  float *scratch);
} og_conv_kernels;
const og_conv_kernels *og_conv_kernels_used(void);

// Floats; -1 where they are too many for an int64_t or for this kernel.
int64_t og_conv_scratch(const og_conv *of);

#endif  // OG_KERNEL_CONV_H
