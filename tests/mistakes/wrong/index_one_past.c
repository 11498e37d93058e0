// SPDX-License-Identifier: Apache-2.0
// mistake: The check of an index takes the one just past the last row.
// expect: pick_rows - unchecked_index|out_of_bounds_read|bounds
//
// Rows of a table.

#include "../../modules/operators.h"

enum { V, D, K };

static og_status pick_rows(const og_call *call) {
  const int64_t rows = call->dim[V], width = call->dim[D];
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t k = 0; k < call->dim[K]; ++k) {
    if (index[k] < 0 || index[k] > rows)
      return og_fail(call, OG_INVALID, "index out of range");
    memcpy(og_f32_mut(call->out[0]) + k * width,
           og_f32(call->in[0]) + index[k] * width,
           (size_t)width * sizeof(float));
  }
  return OG_OK;
}

MODULE(index_one_past,
       {.schema = "pick_rows(Tensor table, Tensor index) -> Tensor",
        .shape = "table[V, D], index[K] -> [K, D]",
        .where = "V > 0",
        .dtype = "table: f32, index: i64 -> table",
        RUN(NULL, pick_rows)})
