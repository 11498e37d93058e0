// SPDX-License-Identifier: Apache-2.0
// A JSON text, piece by piece.
//
//   og_json_begin(out, NULL, '{');
//   og_json_text(out, "name", "relu");
//   og_json_begin(out, "sizes", '[');
//   og_json_int(out, NULL, 4);
//   og_json_end(out, ']');
//   og_json_end(out, '}');
//
// gives {"name": "relu", "sizes": [4]}. Each function but og_json_end puts a
// comma first where something stands before in the same brackets, then the key;
// a key of NULL is left out, as in lists and where the caller wrote it. Keys
// are written as they are: they hold nothing to escape.

#ifndef OG_BASE_JSON_H
#define OG_BASE_JSON_H

#include "base/text.h"

void og_json_key(og_text *out, const char *key);
// A line break, and `spaces` before what comes next.
void og_json_line(og_text *out, int spaces);
void og_json_begin(og_text *out, const char *key, char bracket);
void og_json_end(og_text *out, char bracket);
// NULL is null. What is not plain is escaped.
void og_json_text(og_text *out, const char *key, const char *value);
void og_json_int(og_text *out, const char *key, int64_t value);
void og_json_bool(og_text *out, const char *key, bool value);
// `digits` after the point; null where the value is not finite.
void og_json_number(og_text *out, const char *key, double value, int digits);

#endif  // OG_BASE_JSON_H
