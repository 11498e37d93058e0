// SPDX-License-Identifier: Apache-2.0
// Shared objects: a file's bytes, and a private copy of them, mapped.

#ifndef OG_MODULE_OBJECT_H
#define OG_MODULE_OBJECT_H

#include <stddef.h>

#include "base/status.h"

// The file's bytes, from og_alloc; OG_IO where it cannot be read.
og_status og_object_read(const char *path, unsigned char **out_bytes,
                         size_t *out_size, opgraft_error *error);
// Writes into a file that is there.
og_status og_object_patch(const char *path, size_t at, const void *bytes,
                          size_t size, opgraft_error *error);
// Maps a private copy: dlopen would hand back an old object for a path that it
// knows, and a file that a compiler overwrites must not be mapped. Constructors
// run, and may change the floating-point environment.
og_status og_object_open(const char *path, const unsigned char *bytes,
                         size_t size, void **out_object, opgraft_error *error);
// The floating-point environment stays as it is.
void og_object_close(void *object);
// A symbol's address; NULL where it is not exported.
void *og_object_find(void *object, const char *name);

#endif  // OG_MODULE_OBJECT_H
