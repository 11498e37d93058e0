// SPDX-License-Identifier: Apache-2.0
// The sizes of a pooling over the last two dims, or three of an adaptive one.
// The dims before them count as one: planes.

#ifndef OG_EXEC_STEP_POOL_H
#define OG_EXEC_STEP_POOL_H

#include "exec/step/operands.h"

// Window (y, x) of the result begins at y * stride - padding and so on, and
// takes every `dilation`th element. By dim: height, width.
typedef struct og_pool {
  int64_t planes;
  int64_t in[2], out[2];
  int64_t deep[2];  // of three dims the first, of the operand and the result
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  bool adaptive;  // windows follow from the sizes alone
} og_pool;

// The window of one position of the result along one dim: [begin, end) in steps
// of the dilation; `span` counts positions in the padding too.
typedef struct og_window {
  int64_t begin, end, step, span;
} og_window;
og_window og_pool_window(const og_pool *pool, int d, int64_t at);
// The adaptive window of position `at` where a dim has `size` elements and the
// result `count`.
og_window og_pool_adaptive_window(int64_t size, int64_t count, int64_t at);

// `large` is the pooled tensor, or its gradient; `small` the result, or its;
// `dims` are 2 or 3. Fails where their types or shapes do not fit.
og_status og_pool_shapes(og_prep *prep, const og_tensor *large,
                         const og_tensor *small, int64_t dims, og_pool *out);
// The attributes kernel, stride and padding, which come first, where shapes and
// dilation are set. Fails unless every window begins inside the operand or its
// padding.
og_status og_pool_windows(og_prep *prep, og_pool *out);
// The same of max_pool2d, whose next attribute is the dilation, and whose
// second result, where there is one, has the indices.
og_status og_pool_max(og_prep *prep, og_pool *out);

#endif  // OG_EXEC_STEP_POOL_H
