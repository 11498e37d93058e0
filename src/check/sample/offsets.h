// SPDX-License-Identifier: Apache-2.0
// Offsets, CSR's indptr: an integer argument of one dim that says where each
// group of rows begins and the last one ends. One is known by its name, indptr
// or one that ends with _indptr, or by a dim that is one more than another size
// (`offset[B1]` beside `B1 - 1`, `offset[B + 1]`).

#ifndef OG_CHECK_SAMPLE_OFFSETS_H
#define OG_CHECK_SAMPLE_OFFSETS_H

#include "check/sample/random.h"
#include "check/sample/sample.h"

bool og_is_offsets_argument(const og_decl *decl, int32_t tensor);
// Whether offsets may count places of this dim: it is the first one of another
// argument.
bool og_is_offsets_total(const og_decl *decl, int32_t dim);

typedef struct og_offsets {
  int64_t total;  // what the last one is
  og_index_values values;
  int64_t before;  // the one drawn last
} og_offsets;

// What the sample's offsets end at. Where several dims may be meant, one that
// is the first of a result as well comes before others; kinds of index values
// take turns with the rest, for kernels that refuse the first.
og_offsets og_offsets_begin(const og_sample *sample);
// Offset i of `count`, asked for in order: from 0, not falling, the last the
// total. A part of the groups is empty.
int64_t og_offsets_next(og_offsets *offsets, int64_t i, int64_t count,
                        og_random *random);

#endif  // OG_CHECK_SAMPLE_OFFSETS_H
