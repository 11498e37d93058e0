// SPDX-License-Identifier: Apache-2.0
// Foreign text and figures on a terminal: no control characters, no bytes
// that are not UTF-8, no line that never ends.

#ifndef OG_REPORT_PLAIN_H
#define OG_REPORT_PLAIN_H

#include <stdint.h>

#include "base/text.h"

// `width` characters at most; what does not fit ends in "...". Control
// characters become blanks, foreign bytes "?".
void og_plain_add(og_text *out, const char *text, int32_t width);
// "1.20 ms", "12.3 MB": three digits and a unit.
void og_time_add(og_text *out, double nanoseconds);
void og_bytes_add(og_text *out, double bytes);

// The character of UTF-8 at `s`: its length in bytes, 0 where there is none,
// and its code point.
size_t og_utf8_read(const char *s, uint32_t *out_code);
// No control character, and none that reorders or hides text.
bool og_is_plain(uint32_t code);

#endif  // OG_REPORT_PLAIN_H
