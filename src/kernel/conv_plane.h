// SPDX-License-Identifier: Apache-2.0
// A channel with its edges, as conv.inc keeps it in scratch.

#ifndef OG_KERNEL_CONV_PLANE_H
#define OG_KERNEL_CONV_PLANE_H

#include "kernel/conv.h"

enum {
  CONV_PLANE_MOST = 1 << 20,
  CONV_PLANE_SLACK = 64,  // floats that vectors read behind the last row
};

// A row's columns stand in as many parts as the stride has remainders, so that
// neighbours in the result read neighbours.
typedef struct conv_plane {
  int64_t rows, columns;  // that taps reach
  int64_t part, pitch;    // floats from part to part, from row to row
} conv_plane;

static inline conv_plane conv_plane_of(const og_conv *of) {
  conv_plane p;
  p.rows = (of->out[0] - 1) * of->stride[0] +
           (of->taps[0] - 1) * of->dilation[0] + 1;
  p.columns = (of->out[1] - 1) * of->stride[1] +
              (of->taps[1] - 1) * of->dilation[1] + 1;
  p.part = (p.columns + of->stride[1] - 1) / of->stride[1];
  p.pitch = p.part * of->stride[1];
  return p;
}

#endif  // OG_KERNEL_CONV_PLANE_H
