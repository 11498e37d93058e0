// SPDX-License-Identifier: Apache-2.0
// The sizes of a convolution of 1 to 3 spatial dims, plain or transposed.
//
// A pair (small, large) of spatial positions is tied by
//   large = small * stride - padding + tap * dilation.
// A convolution sums over `large` into `small`; a transposed one, and the
// gradient of the operand, the other way round.

#ifndef OG_EXEC_STEP_CONVOLUTION_H
#define OG_EXEC_STEP_CONVOLUTION_H

#include "exec/step/operands.h"

enum { OG_CONV_SPACE = 3 };  // dims; those that are missing stand first, as 1

typedef struct og_convolution {
  int64_t stride[OG_CONV_SPACE], padding[OG_CONV_SPACE];
  int64_t dilation[OG_CONV_SPACE];
  int64_t small[OG_CONV_SPACE], large[OG_CONV_SPACE], taps[OG_CONV_SPACE];
  int64_t batch, groups;
  int64_t small_channels, large_channels;  // of one group
  bool transposed;
} og_convolution;

// x, w and y are the operand, the weight and the result, or its gradient. Fails
// where types, shapes or attributes do not fit. The weight is [small channels,
// large channels of a group, taps].
og_status og_convolution_read(og_prep *prep, const og_tensor *x,
                              const og_tensor *w, const og_tensor *y,
                              og_convolution *out);
// Fails where there is a bias that is not a vector of `count` floats.
og_status og_convolution_bias(og_prep *prep, const og_tensor *bias,
                              int64_t count);

// How an image lies in memory: each channel's plane is one run, or the channels
// of each pixel are, and pixels stand in one row.
typedef enum og_conv_layout {
  OG_CONV_PLANES,
  OG_CONV_PIXELS,
  OG_CONV_OTHER
} og_conv_layout;
og_conv_layout og_convolution_layout(const og_tensor *images);
// Whether it is plain, of f32, its weights are one run, and it has results.
bool og_convolution_is_f32(const og_prep *prep, const og_convolution *c);
// The same, of two spatial dims at most, of planes.
bool og_convolution_is_planes(const og_prep *prep, const og_convolution *c);

static inline int64_t og_conv_points(const int64_t *sizes) {
  return sizes[0] * sizes[1] * sizes[2];
}

#endif  // OG_EXEC_STEP_CONVOLUTION_H
