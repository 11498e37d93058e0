// SPDX-License-Identifier: Apache-2.0
// Text with a length that counts what does not fit.

#include "shared/text.h"

#include <inttypes.h>
#include <stdio.h>

og_host_text og_host_text_begin(char *out, size_t size) {
  return (og_host_text){.out = out, .size = size};
}

// One character, escaped once for each JSON string around it.
static void put(og_host_text *text, char c, int32_t depth) {
  if (depth > 0) {
    if (c == '"' || c == '\\') put(text, '\\', depth - 1);
    put(text, c, depth - 1);
    return;
  }
  if (text->length + 1 < text->size) text->out[text->length] = c;
  ++text->length;
}

void og_host_text_add(og_host_text *text, const char *words) {
  for (; *words != '\0'; ++words) put(text, *words, text->depth);
}

void og_host_text_number(og_host_text *text, int64_t number) {
  char words[24];
  snprintf(words, sizeof words, "%" PRId64, number);
  og_host_text_add(text, words);
}

void og_host_text_open(og_host_text *text) {
  og_host_text_add(text, "\"");
  ++text->depth;
}

void og_host_text_close(og_host_text *text) {
  --text->depth;
  og_host_text_add(text, "\"");
}

size_t og_host_text_end(og_host_text *text) {
  if (text->size > 0)
    text->out[text->length < text->size ? text->length : text->size - 1] = '\0';
  return text->length;
}
