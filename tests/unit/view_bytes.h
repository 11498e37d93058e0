// SPDX-License-Identifier: Apache-2.0
// The oracle of overlaps: the bytes of a view's elements, one by one.

#ifndef TESTS_UNIT_VIEW_BYTES_H
#define TESTS_UNIT_VIEW_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

// Counts each byte's elements, where `memory` begins at counts[0]; the most of
// any byte. The tensor has strides, and lies in the memory.
static inline int32_t view_bytes_count(const og_tensor *t, const char *memory,
                                       uint8_t *counts) {
  const int64_t item = (int64_t)og_dtype_bytes(t->dtype);
  const int64_t total = og_numel(t);
  int32_t most = 0;
  for (int64_t i = 0; i < total; ++i) {
    int64_t at = (const char *)og_data(t) - memory;
    int64_t index = i;
    for (int32_t d = t->ndim - 1; d >= 0; index /= t->shape[d--])
      at += index % t->shape[d] * t->strides[d] * item;
    for (int64_t b = 0; b < item; ++b)
      if (++counts[at + b] > most) most = counts[at + b];
  }
  return most;
}

// Equal sizes, strides and addresses, and not empty.
static inline bool view_is_same(const og_tensor *a, const og_tensor *b) {
  bool same = og_data(a) == og_data(b) && a->ndim == b->ndim &&
              og_dtype_bytes(a->dtype) == og_dtype_bytes(b->dtype) &&
              og_numel(a) > 0;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d] &&
           (a->shape[d] == 1 || a->strides[d] == b->strides[d]);
  return same;
}

#endif  // TESTS_UNIT_VIEW_BYTES_H
