// SPDX-License-Identifier: Apache-2.0
// Walking several tensors of one shape at once, whatever their strides.

#ifndef OG_EXEC_STEP_NEST_H
#define OG_EXEC_STEP_NEST_H

#include <opgraft/opgraft.h>
#include <stdbool.h>

#include "scalar/element.h"

enum { OG_NEST_OPERANDS = 6 };

// Dims from the outermost to the innermost, unit dims dropped and those that
// are one run in every operand joined. Strides are in bytes.
typedef struct og_nest {
  int32_t ndim;
  int32_t operands;
  int64_t size[OPGRAFT_RANK_MAX];
  int64_t stride[OG_NEST_OPERANDS][OPGRAFT_RANK_MAX];
} og_nest;

// `shape` is broadcast over: an operand's missing or unit dims have stride 0.
// Dims are ordered by the strides of operand 0. False if an operand does not
// broadcast to the shape.
bool og_nest_init(og_nest *nest, int32_t ndim, const int64_t *shape,
                  const og_tensor *const *tensors, int32_t count);
int64_t og_nest_rows(const og_nest *nest);   // product of all but the innermost
int64_t og_nest_width(const og_nest *nest);  // the innermost dim
// The byte offsets of each operand in row `row`.
void og_nest_offsets(const og_nest *nest, int64_t row, int64_t *out_offsets);
// Those at a point of the nest, all dims counted.
void og_nest_point(const og_nest *nest, int64_t index, int64_t *out_offsets);

// Loads n elements into float, double or int64_t, or stores them.
typedef void (*og_load_fn)(int64_t n, void *to, const char *from,
                           int64_t stride_bytes);
typedef void (*og_store_fn)(int64_t n, char *to, int64_t stride_bytes,
                            const void *from);
og_load_fn og_load_find(og_dtype dtype, og_class of);
og_store_fn og_store_find(og_dtype dtype, og_class of);
size_t og_class_bytes(og_class of);

#endif  // OG_EXEC_STEP_NEST_H
