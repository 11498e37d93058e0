// SPDX-License-Identifier: Apache-2.0
// Structs of a caller that may be older or newer than the library: read and
// written by the size that the caller gives.

#ifndef OG_BASE_SIZED_H
#define OG_BASE_SIZED_H

#include <stddef.h>

#include "base/status.h"

// Copies what both know over zeros. Returns where the first byte that is set
// and unknown here lies, 0 where there is none.
size_t og_copy_known(const void *from, size_t from_bytes, void *to,
                     size_t to_bytes);

// `from` begins with its struct_size, and so does the copy, with `to_bytes`.
// NULL is a struct of zeros. `name` is the struct's, for errors: OG_INVALID for
// a size that cannot be right, OG_VERSION for a byte that is set and unknown.
og_status og_copy_sized(const char *name, const void *from, void *to,
                        size_t to_bytes, opgraft_error *error);

// OG_VERSION for a flag that is not in `known`.
og_status og_flags_check(const char *name, uint32_t flags, uint32_t known,
                         opgraft_error *error);

// OG_INVALID for a struct_size below `least_bytes`, or beyond any struct's.
og_status og_size_check(const char *name, uint32_t size_bytes,
                        size_t least_bytes, size_t our_bytes,
                        opgraft_error *error);

// Writes a struct into the caller's, whose size was checked: what it has room
// for, then zeros. Its struct_size stays.
void og_fill_sized(const void *from, size_t from_bytes, void *to);

#endif  // OG_BASE_SIZED_H
