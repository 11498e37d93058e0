// SPDX-License-Identifier: Apache-2.0
// Rows of x and weight by the norm of rms_norm, with an offset to the weight.

#ifndef OG_OPS_SHARED_NORM_ROWS_H
#define OG_OPS_SHARED_NORM_ROWS_H

#include <opgraft/op.h>

#include "kernel/kernel.h"

// x[*N, D], weight[D] -> [*N, D]; attribute 0 is eps.
static inline void og_norm_rows(const og_call *call, int64_t begin, int64_t end,
                                float offset) {
  const int element = og_element_of(call->in[0]);
  const int64_t width = call->in[1]->shape[0];
  for (int64_t r = begin; r < end; ++r)
    og_rows()->rms_norm(og_at(og_data(call->in[0]), r * width, element),
                        og_data(call->in[1]),
                        og_at(og_data(call->out[0]), r * width, element), width,
                        (float)call->attr[0].f, offset, element);
}

#endif  // OG_OPS_SHARED_NORM_ROWS_H
