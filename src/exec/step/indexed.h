// SPDX-License-Identifier: Apache-2.0
// Index tensors: what they ask for, and the shape that they reach.

#ifndef OG_EXEC_STEP_INDEXED_H
#define OG_EXEC_STEP_INDEXED_H

#include "exec/step/operands.h"

// The error of an index that is out of range.
og_status og_index_refuse(const og_run *run, int64_t index, int64_t size);
// Fails with the index unless it is one of a dim of this size. Negative ones
// are not: of all ATen operators only index, index_put and index_fill count
// them from the end.
static inline og_status og_index_check(const og_run *run, int64_t index,
                                       int64_t size) {
  return index >= 0 && index < size ? OG_OK : og_index_refuse(run, index, size);
}

// to += alpha * from
void og_element_add(og_dtype dtype, char *to, const char *from, double alpha);

// index and index_put: which dims of a tensor have an index, and what these
// reach together.
typedef struct og_indexed {
  og_operands io;
  bool adds;
  bool wraps;  // negative indices count from the end
  int32_t dims[OPGRAFT_RANK_MAX];
  int32_t dim_count;
  og_tensor *const *indices;
  int32_t first;  // where the indices' dims stand in the result
  int32_t index_rank;
  int64_t index_shape[OPGRAFT_RANK_MAX];
  og_tensor reach;  // a shape: what the indices pick
} og_indexed;

// Reads the operands of index (`whole` is operand 0) or index_put (`whole` is
// the result), whose shapes and types it checks.
og_status og_index_read(og_prep *prep, og_indexed *s);
og_status og_index_put_read(og_prep *prep, og_indexed *s);
// What index k asks for at a point of the shape that the indices broadcast to.
int64_t og_index_asked(const og_indexed *s, int32_t k, const int64_t *point);
// Where that lies in a dim of this size; false if it is out of range.
static inline bool og_index_find(const og_indexed *s, int64_t size,
                                 int64_t *index) {
  if (*index < 0 && s->wraps) *index += size;
  return *index >= 0 && *index < size;
}

#endif  // OG_EXEC_STEP_INDEXED_H
