// SPDX-License-Identifier: Apache-2.0
// Foreign text and figures on a terminal.

#include "report/plain.h"

#include "report/form.h"

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
  og_text_add_fixed(out, value, digits);
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
