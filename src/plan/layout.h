// SPDX-License-Identifier: Apache-2.0
// Which elements of its storage a tensor touches, exactly.

#ifndef OG_PLAN_LAYOUT_H
#define OG_PLAN_LAYOUT_H

#include <opgraft/op.h>
#include <stdbool.h>

#include "base/status.h"

// Most elements of a tensor, and most bytes between its storage's start and
// any of its elements. Products of a size, a type's bytes and the threads fit
// in 63 bits.
#define OG_LAYOUT_ELEMENTS_MAX ((int64_t)1 << 47)

// The elements from `*out_low` to before `*out_high` hold all that the tensor
// touches, where its first element is `offset` from its storage's start; both
// are 0 where it is empty. False if a size is negative or the tensor reaches
// further than memory can.
bool og_layout_extent(const og_tensor *tensor, int64_t offset, int64_t *out_low,
                      int64_t *out_high);

// The tensors below have an extent. OG_MEMORY where a layout is too large to
// look at element by element.

// Whether two indices name one element.
og_status og_layout_overlaps(const og_tensor *tensor, bool *out_overlaps,
                             opgraft_error *error);
// Whether every element of `part` is one of `whole`; offsets as above.
og_status og_layout_covers(const og_tensor *whole, int64_t whole_offset,
                           const og_tensor *part, int64_t part_offset,
                           bool *out_covers, opgraft_error *error);

#endif  // OG_PLAN_LAYOUT_H
