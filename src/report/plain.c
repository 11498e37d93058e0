// SPDX-License-Identifier: Apache-2.0
// Foreign text and figures on a terminal.

#include "report/plain.h"

#include <string.h>

#include "report/report.h"

size_t og_utf8_read(const char *text, uint32_t *out_code) {
  const unsigned char *s = (const unsigned char *)text;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  *out_code = s[0];
  if (s[0] < 0x80) return 1;
  if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
  const size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  uint32_t code = s[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3F);
  }
  if (code < least[length] || code > 0x10FFFF ||
      (code >= 0xD800 && code <= 0xDFFF))
    return 0;
  *out_code = code;
  return length;
}

bool og_is_plain(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  // Line and paragraph separators, and marks that turn or hide what follows.
  if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E))
    return false;
  return !(code >= 0x2060 && code <= 0x206F) && code != 0xFEFF;
}

void og_plain_add(og_text *out, const char *text, int32_t width) {
  const int32_t most = width > 8 ? width : 8;
  const size_t start = out->length;
  size_t cut = start;  // where "..." would go
  int32_t shown = 0;
  for (const char *s = text; *s != '\0';) {
    uint32_t code;
    const size_t length = og_utf8_read(s, &code);
    if (shown == most - 3) cut = out->length;
    if (shown == most) {
      if (out->data != NULL && !out->failed) {
        out->length = cut;
        og_text_add(out, "...");
      }
      return;
    }
    if (length == 0)
      og_text_add(out, "?");
    else if (!og_is_plain(code))
      og_text_add(out, " ");
    else
      og_text_add_n(out, s, length);
    s += length > 0 ? length : 1;
    ++shown;
  }
}

static void scaled_add(og_text *out, double value, const char *const *units,
                       int count) {
  int unit = 0;
  while (unit + 1 < count && value >= 999.5) {
    value /= 1000;
    ++unit;
  }
  const int digits = value >= 99.95 || unit == 0 ? 0 : value >= 9.995 ? 1 : 2;
  og_add_fixed(out, value, digits);
  og_text_add(out, " ");
  og_text_add(out, units[unit]);
}

void og_time_add(og_text *out, double nanoseconds) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  scaled_add(out, nanoseconds, units, 4);
}

void og_bytes_add(og_text *out, double bytes) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  scaled_add(out, bytes, units, 5);
}
