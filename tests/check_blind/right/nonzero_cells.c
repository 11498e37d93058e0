// SPDX-License-Identifier: Apache-2.0
// nonzero_cells: the row and the column of each cell that is not 0.

#include "../../modules/operators.h"

enum { H, W, K };  // dims of the shape rule

static og_status nonzero_cells(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  int64_t kept = 0;
  for (int64_t h = 0; h < call->dim[H]; ++h)
    for (int64_t w = 0; w < call->dim[W]; ++w) {
      if (x[h * call->dim[W] + w] == 0) continue;
      y[2 * kept] = h;
      y[2 * kept + 1] = w;
      ++kept;
    }
  og_set_dim(call, K, kept);
  return OG_OK;
}

MODULE(nonzero_cells, {.schema = "nonzero_cells(Tensor x) -> Tensor",
                       .shape = "x[H, W] -> [K <= H * W, 2]",
                       .dtype = "x: f32 -> i64",
                       .backward = "none",
                       .doc = "In the order of rows, then columns.",
                       RUN("f32", nonzero_cells)})
