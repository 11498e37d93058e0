// SPDX-License-Identifier: Apache-2.0
// The tensors of a fused node, walked row by row.

#ifndef OG_EXEC_STEP_ROWS_H
#define OG_EXEC_STEP_ROWS_H

#include "exec/step/prep.h"
#include "graph/fused.h"

// The operands, then the results. Dims outside the row are ordered from the
// outermost in; unit dims are dropped, and dims that are one run in every
// tensor are joined.
typedef struct og_rows {
  int32_t tensors, ndim;
  int64_t count, width;
  int64_t *size;    // by dim
  int64_t *stride;  // in bytes, by tensor and dim: [tensors][OPGRAFT_RANK_MAX]
  int64_t *step;    // in bytes, by tensor: along the row
} og_rows;

// The row is the last `row_dims` dims, or the last of them where not
// all tensors have them in one run. 0: all dims are ordered by the strides of
// the first result and joined, and the innermost is the row. Failure:
// OG_MEMORY.
og_status og_rows_init(og_prep *prep, const og_fused *fused, int32_t row_dims,
                       og_rows *out);
static inline const int64_t *og_rows_strides(const og_rows *rows,
                                             int32_t tensor) {
  return rows->stride + (int64_t)tensor * OPGRAFT_RANK_MAX;
}
// Where each tensor's row begins, in bytes.
void og_rows_offsets(const og_rows *rows, int64_t row, int64_t *out_offsets);

#endif  // OG_EXEC_STEP_ROWS_H
