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

#endif  // OG_REPORT_PLAIN_H
