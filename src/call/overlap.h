// SPDX-License-Identifier: Apache-2.0
// Which memory tensors share, decided exactly.
//
// A tensor's memory is the bytes of its elements, at whatever strides: two
// views whose ranges cross need not share a byte (`kv[:, 0]` and `kv[:, 1]`).
// The decision is cheap where ranges are apart, layouts agree or rows nest;
// otherwise it searches the integer solutions of
//
//   address of an element of a + byte = address of an element of b + byte
//
// largest stride first, and drops a branch that no solution can lie in by its
// size or by the greatest common divisor of the strides that are left. The
// search ends after OG_OVERLAP_WORK branches. What it could not decide by then
// must be refused like an overlap.
// Source of the search: NumPy's solve_may_share_memory (Virtanen, 2015).

#ifndef OG_CALL_OVERLAP_H
#define OG_CALL_OVERLAP_H

#include <stdbool.h>

#include "base/text.h"

enum { OG_OVERLAP_WORK = 1 << 18 };

typedef enum og_overlap {
  OG_OVERLAP_NONE,
  OG_OVERLAP_SAME,       // equal sizes, strides and addresses
  OG_OVERLAP_PART,       // some byte is in both
  OG_OVERLAP_UNDECIDED,  // the search was cut short, or an address overflows
} og_overlap;

// The bytes [low, high) that a tensor's elements lie in; low == high where it
// has none, or no memory yet (data NULL).
typedef struct og_span {
  uint64_t low, high;
} og_span;

// False where an address overflows.
bool og_span_get(const og_tensor *tensor, og_span *out_span);
static inline bool og_spans_cross(og_span a, og_span b) {
  return a.low < b.high && b.low < a.high;
}

// The same of a tensor that lies in memory, so that nothing overflows.
static inline og_span og_span_of(const og_tensor *tensor) {
  const uint64_t item = og_dtype_bytes(tensor->dtype);
  const uint64_t first = (uint64_t)(uintptr_t)og_data(tensor);
  uint64_t below = 0, above = 1;  // elements, from the first
  if (tensor->data == NULL) return (og_span){0, 0};
  if (tensor->strides == NULL) {
    for (int32_t d = 0; d < tensor->ndim; ++d)
      above *= (uint64_t)tensor->shape[d];
    return (og_span){first, first + above * item};
  }
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const int64_t most = tensor->shape[d] - 1;
    if (most < 0) return (og_span){0, 0};
    const int64_t part = most * tensor->strides[d];
    if (part < 0)
      below += (uint64_t)part;
    else
      above += (uint64_t)part;
  }
  return (og_span){first + below * item, first + above * item};
}

// How a and b lie to each other. Strides may be NULL (row-major), zero or
// negative. Does not allocate.
og_overlap og_overlap_between(const og_tensor *a, const og_tensor *b);
// Whether two elements of the tensor share a byte: OG_OVERLAP_NONE, PART or
// UNDECIDED.
og_overlap og_overlap_within(const og_tensor *tensor);

#endif  // OG_CALL_OVERLAP_H
