// SPDX-License-Identifier: Apache-2.0
// A JSON text, piece by piece.

#include "base/json.h"

#include <math.h>
#include <string.h>

// Strings end with a quote, so the last byte that is not a space says whether
// something stands before.
static void separate(og_text *out) {
  size_t at = out->length;
  while (at > 0 && strchr(" \n", out->data[at - 1]) != NULL) --at;
  if (at == 0 || strchr("{[,:", out->data[at - 1]) != NULL) return;
  og_text_add(out, at == out->length ? ", " : ",");
}

void og_json_key(og_text *out, const char *key) {
  separate(out);
  if (key != NULL) og_text_addf(out, "\"%s\": ", key);
}

void og_json_line(og_text *out, int spaces) {
  separate(out);
  if (out->length > 0 && out->data[out->length - 1] == ' ')
    out->data[--out->length] = '\0';
  og_text_addf(out, "\n%*s", spaces, "");
}

void og_json_begin(og_text *out, const char *key, char bracket) {
  og_json_key(out, key);
  og_text_add_n(out, &bracket, 1);
}

void og_json_end(og_text *out, char bracket) {
  og_text_add_n(out, &bracket, 1);
}

void og_json_text(og_text *out, const char *key, const char *value) {
  og_json_key(out, key);
  if (value != NULL)
    og_text_add_json(out, value);
  else
    og_text_add(out, "null");
}

void og_json_int(og_text *out, const char *key, int64_t value) {
  og_json_key(out, key);
  og_text_addf(out, "%lld", (long long)value);
}

void og_json_bool(og_text *out, const char *key, bool value) {
  og_json_key(out, key);
  og_text_add(out, value ? "true" : "false");
}

void og_json_number(og_text *out, const char *key, double value, int digits) {
  og_json_key(out, key);
  if (isfinite(value))
    og_text_add_fixed(out, value, digits);
  else
    og_text_add(out, "null");
}
