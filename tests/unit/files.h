// SPDX-License-Identifier: Apache-2.0
// Files in a folder of a test's own.

#ifndef OG_TEST_FILES_H
#define OG_TEST_FILES_H

#include <stdio.h>
#include <stdlib.h>

enum { FILE_MOST = 1 << 16 };

static char folder[64];

// Until the next call.
static const char *path_in(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

// FILE_MOST bytes at most, to be freed.
static char *file_bytes(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  char *bytes = calloc(1, FILE_MOST);
  *out_size =
      file != NULL && bytes != NULL ? fread(bytes, 1, FILE_MOST, file) : 0;
  if (file != NULL) fclose(file);
  return bytes;
}

static void file_put(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return;
  fwrite(bytes, 1, size, file);
  fclose(file);
}

#endif  // OG_TEST_FILES_H
