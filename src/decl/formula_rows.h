// SPDX-License-Identifier: Apache-2.0
// Rows by an index: table[index], and add_rows(value, index).
//
// What is added is first computed as a tensor of its own, row by row of the
// space; then each row of the result is the sum, in order, of those whose index
// it is. So the bits depend on no number of threads.

#ifndef OG_DECL_FORMULA_ROWS_H
#define OG_DECL_FORMULA_ROWS_H

#include "decl/formula.h"

// The strides of an operand by dim of the space, in elements; 0 where it is
// repeated. The first dim of a table is not one of the space's.
void og_formula_strides(const struct og_formula *f,
                        const og_formula_place *place, const og_tensor *t,
                        int32_t rank, const int64_t *size, int64_t *stride);

// The element of an index, by its offset in elements.
int64_t og_formula_index_at(const og_tensor *index, int64_t offset);

// Every index is one of a row. Failure: OG_INVALID, with the first that is out
// of range; OG_DTYPE: it has another type than an integer's.
og_status og_formula_indices_check(const struct og_formula *f,
                                   const og_call *call);

// Adds values, by output (NULL where that is not added): rows of class
// elements, one after the other as the space has them.
og_status og_formula_rows_add(const struct og_formula *f, const og_call *call,
                              og_class class, int32_t rank, const int64_t *size,
                              char *const *values);

#endif  // OG_DECL_FORMULA_ROWS_H
