// SPDX-License-Identifier: Apache-2.0
// What resizing reads: of each position of the result along a dim the elements
// of the operand, and their weights.

#ifndef OG_EXEC_STEP_RESAMPLE_H
#define OG_EXEC_STEP_RESAMPLE_H

#include "exec/step/operands.h"

enum { OG_TAPS_MOST = 4 };

typedef struct og_tap {
  int64_t at[OG_TAPS_MOST];
  double weight[OG_TAPS_MOST];
} og_tap;

// By dim: height, width.
typedef struct og_resample {
  int64_t planes, in[2], out[2];
  int32_t count;    // of a position's taps
  og_tap *taps[2];  // [out]
} og_resample;

// Of an upsampling node: `x` is the tensor to resize, or its gradient; `y` the
// result, or its. Fails where their shapes or the attributes do not fit.
og_status og_resample_read(og_prep *prep, const og_tensor *x,
                           const og_tensor *y, og_resample *out);

#endif  // OG_EXEC_STEP_RESAMPLE_H
