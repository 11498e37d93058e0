// SPDX-License-Identifier: Apache-2.0
// pick_cells: entries of a matrix by row and column numbers.

#include "../../modules/operators.h"

enum { H, W, K };  // dims of the shape rule

static int is_inside(int32_t i, int64_t size) { return i >= 0 && i < size; }

static og_status pick_cells(const og_call *call) {
  const int32_t *row = og_i32(call->in[1]), *column = og_i32(call->in[2]);
  const float *x = og_f32(call->in[0]);
  for (int64_t k = 0; k < call->dim[K]; ++k) {
    if (!is_inside(row[k], call->dim[W]) || !is_inside(column[k], call->dim[H]))
      return og_fail(call, OG_INVALID, "a cell is outside the matrix");
    og_f32_mut(call->out[0])[k] = x[row[k] * call->dim[W] + column[k]];
  }
  return OG_OK;
}

MODULE(pick_cells,
       {.schema = "pick_cells(Tensor x, Tensor row, Tensor column) -> Tensor",
        .shape = "x[H, W], row[K], column[K] -> [K]",
        .dtype = "x: f32, row: i32, column: i32 -> x",
        .doc = "Result k is x[row[k], column[k]].",
        RUN("f32", pick_cells)})
