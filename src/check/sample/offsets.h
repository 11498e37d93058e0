// SPDX-License-Identifier: Apache-2.0
// Offsets, CSR's indptr: an integer argument that says where each group of rows
// begins and the last one ends. `where` says so, `indptr in offsets(N)`, or a
// dim that is one more than another size does (`offset[B1]` beside `B1 - 1`,
// `offset[B + 1]`).

#ifndef OG_CHECK_SAMPLE_OFFSETS_H
#define OG_CHECK_SAMPLE_OFFSETS_H

#include "check/sample/random.h"
#include "check/sample/sample.h"

bool og_is_offsets_argument(const og_decl *decl, int32_t tensor);
// Whether offsets may count places of this dim: it is the first one of another
// argument.
bool og_is_offsets_total(const og_decl *decl, int32_t dim);
// Whether values of integers are said to depend on this dim: it cannot become
// smaller without them.
bool og_bounds_values(const og_decl *decl, int32_t dim);

// Whether an argument's integers have to fit each other: offsets, and what the
// operator itself chooses without a range. None of them is changed alone.
bool og_has_fitting_integers(const og_decl *decl, int32_t tensor);

// Draws `count` offsets: from 0, not falling, a part of the groups empty. Where
// the declaration leaves open which dim the last one means, one that is the
// first of a result as well comes before others; kinds of index values take
// turns with the rest, for kernels that refuse the first.
void og_offsets_fill(const og_sample *sample, int32_t tensor, og_dtype type,
                     void *data, int64_t count, og_random *random);

#endif  // OG_CHECK_SAMPLE_OFFSETS_H
