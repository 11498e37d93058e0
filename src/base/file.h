// SPDX-License-Identifier: Apache-2.0
// Files: mapped to be read, written whole or not at all.

#ifndef OG_BASE_FILE_H
#define OG_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

// A file's bytes, as long as it is mapped. Zeroed: there is none.
typedef struct og_mapping {
  const char *bytes;  // at least one page aligned; not NULL, also when empty
  size_t size_bytes;
} og_mapping;

// OG_IO with the system's reason.
og_status og_file_map(const char *path, og_mapping *out, opgraft_error *error);
void og_file_unmap(og_mapping *mapping);

// A file that is written beside its place and takes it when it is complete.
typedef struct og_file_out {
  FILE *stream;
  const char *path;
  char *temporary;
  int cause;  // errno of the first og_file_put that failed; 0: none did
} og_file_out;

og_status og_file_begin(const char *path, og_file_out *out,
                        opgraft_error *error);
// After one that failed nothing more is written.
void og_file_put(og_file_out *out, const void *bytes, size_t size_bytes);
// What was written so far reaches the system, so that a mapping shows it.
// OG_IO.
og_status og_file_flush(og_file_out *out, opgraft_error *error);
// Closes; the file takes its place if all was written and `status`, which is
// returned then, is OG_OK. Else what was there before stays.
og_status og_file_end(og_file_out *out, og_status status, opgraft_error *error);

#endif  // OG_BASE_FILE_H
