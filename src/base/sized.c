// SPDX-License-Identifier: Apache-2.0
// Structs of a caller of another age.
//
// Invariants: nothing beyond the caller's size is read or written.

#include "base/sized.h"

#include <string.h>

// No struct is as large: a size beyond it was never set.
enum { SIZE_MOST_BYTES = 4096 };

size_t og_copy_known(const void *from, size_t from_bytes, void *to,
                     size_t to_bytes) {
  const char *bytes = from;
  memset(to, 0, to_bytes);
  memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
  for (size_t i = to_bytes; i < from_bytes; ++i)
    if (bytes[i] != 0) return i;
  return 0;
}

og_status og_size_check(const char *name, uint32_t size_bytes,
                        size_t least_bytes, size_t our_bytes,
                        opgraft_error *error) {
  if (size_bytes >= least_bytes && size_bytes <= SIZE_MOST_BYTES) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, name,
                      "%s.struct_size is %u, expected sizeof(%s): %zu here, "
                      "and at least %zu",
                      name, (unsigned)size_bytes, name, our_bytes, least_bytes);
}

og_status og_copy_sized(const char *name, const void *from, void *to,
                        size_t to_bytes, opgraft_error *error) {
  const uint32_t our_bytes = (uint32_t)to_bytes;
  uint32_t size_bytes = our_bytes;
  size_t unknown = 0;
  if (from != NULL) {
    memcpy(&size_bytes, from, sizeof size_bytes);
    OG_TRY(og_size_check(name, size_bytes, sizeof size_bytes, to_bytes, error));
    unknown = og_copy_known(from, size_bytes, to, to_bytes);
  } else {
    memset(to, 0, to_bytes);
  }
  memcpy(to, &our_bytes, sizeof our_bytes);
  if (unknown == 0) return OG_OK;
  return og_error_set(error, OG_VERSION, NULL, name,
                      "%s has %u bytes, of which this opgraft knows %zu: byte "
                      "%zu is set; use the opgraft that the caller was built "
                      "with, or a newer one",
                      name, (unsigned)size_bytes, to_bytes, unknown);
}

og_status og_flags_check(const char *name, uint32_t flags, uint32_t known,
                         opgraft_error *error) {
  if ((flags & ~known) == 0) return OG_OK;
  return og_error_set(error, OG_VERSION, NULL, name,
                      "%s.flags has 0x%x, of which this opgraft knows 0x%x; "
                      "use the opgraft that the caller was built with, or a "
                      "newer one",
                      name, (unsigned)flags, (unsigned)known);
}

void og_fill_sized(const void *from, size_t from_bytes, void *to) {
  uint32_t size_bytes;
  memcpy(&size_bytes, to, sizeof size_bytes);
  og_copy_known(from, from_bytes, to, size_bytes);
  memcpy(to, &size_bytes, sizeof size_bytes);
}
