// SPDX-License-Identifier: Apache-2.0
// A channel with its edges, as conv.inc keeps it in scratch.

#ifndef OG_KERNEL_CONV_PLANE_H
#define OG_KERNEL_CONV_PLANE_H

#include "kernel/conv.h"

enum {
  CONV_PLANE_MOST = 1 << 20,  // rows and floats of a row, at most
  CONV_PLANE_FLOATS = 4096,   // of a band, where a row of the result allows it
  CONV_PLANE_SLACK = 64,      // that vectors read behind the last row
};

// A band of rows. Its columns stand in as many parts as the stride has
// remainders, so that neighbours in the result read neighbours.
typedef struct conv_plane {
  int64_t band;           // rows of the result, of one band
  int64_t rows, columns;  // that its taps reach
  int64_t part, pitch;    // floats from part to part, from row to row
  // From one column of taps to the next: floats, and how many parts further it
  // stands; floats more where it is past the last part.
  int64_t column_step, part_step, wrap_step;
} conv_plane;

// Of the operand, that so many rows of the result read.
static inline int64_t conv_plane_rows(const og_conv *of, int64_t rows) {
  return (rows - 1) * of->stride[0] + (of->taps[0] - 1) * of->dilation[0] + 1;
}

static inline conv_plane conv_plane_of(const og_conv *of) {
  conv_plane p;
  const int64_t stride = of->stride[1], reach = conv_plane_rows(of, 1);
  p.columns =
      (of->out[1] - 1) * stride + (of->taps[1] - 1) * of->dilation[1] + 1;
  p.part = (p.columns + stride - 1) / stride;
  p.pitch = p.part * stride;
  const int64_t fit = CONV_PLANE_FLOATS / p.pitch;
  const int64_t most = fit > reach ? (fit - reach) / of->stride[0] + 1 : 1;
  const int64_t bands = (of->out[0] + most - 1) / most;
  p.band = (of->out[0] + bands - 1) / bands;
  p.rows = conv_plane_rows(of, p.band);
  p.part_step = of->dilation[1] % stride;
  p.column_step = p.part_step * p.part + of->dilation[1] / stride;
  p.wrap_step = 1 - p.pitch;
  return p;
}

#endif  // OG_KERNEL_CONV_PLANE_H
