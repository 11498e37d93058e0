// SPDX-License-Identifier: Apache-2.0
// Fills the caller's error; texts of the codes; the library's version.

#include "base/status.h"

#include <stdio.h>
#include <string.h>

const char *opgraft_status_text(og_status code) {
#define STATUS_TEXT(name, value, text) \
  case name:                           \
    return text;
  switch (code) { OG_STATUS_LIST(STATUS_TEXT) }
#undef STATUS_TEXT
  return "unknown status";
}

uint32_t opgraft_abi_version(void) { return OG_ABI_VERSION; }

// Cuts at a whole UTF-8 character, so that a long name stays printable.
static void copy_cut(char *to, size_t size, const char *from) {
  size_t length = from != NULL ? strlen(from) : 0;
  if (length >= size) {
    length = size - 1;
    while (length > 0 && ((unsigned char)from[length] & 0xC0u) == 0x80u)
      --length;
  }
  if (length > 0) memcpy(to, from, length);
  to[length] = '\0';
}

static void error_fill(opgraft_error *error, og_status code, const char *op,
                       const char *argument, int32_t begin, int32_t end,
                       const char *format, va_list values) {
  char text[sizeof error->text];
  // The text is made first: the values may point into *error.
  if (vsnprintf(text, sizeof text, format, values) < 0) text[0] = '\0';
  error->code = code;
  error->begin = begin;
  error->end = end;
  error->reserved = 0;
  copy_cut(error->op, sizeof error->op, op);
  copy_cut(error->argument, sizeof error->argument, argument);
  copy_cut(error->text, sizeof error->text, text);
}

og_status og_error_set(opgraft_error *error, og_status code, const char *op,
                       const char *argument, const char *format, ...) {
  if (error == NULL) return code;
  va_list values;
  va_start(values, format);
  error_fill(error, code, op, argument, -1, -1, format, values);
  va_end(values);
  return code;
}

og_status og_error_at(opgraft_error *error, og_status code, const char *op,
                      const char *argument, int32_t begin, int32_t end,
                      const char *format, ...) {
  if (error == NULL) return code;
  va_list values;
  va_start(values, format);
  error_fill(error, code, op, argument, begin, end, format, values);
  va_end(values);
  return code;
}
