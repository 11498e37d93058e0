// SPDX-License-Identifier: Apache-2.0
// Text that an adapter makes of its declarations: C source, JSON.
//
//   og_host_text t = og_host_text_begin(out, size);
//   og_host_text_add(&t, "int count = ");
//   og_host_text_number(&t, count);
//   length = og_host_text_end(&t);   // without the NUL; may be above `size`

#ifndef OG_HOSTS_SHARED_TEXT_H
#define OG_HOSTS_SHARED_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct og_host_text {
  char *out;
  size_t size;
  size_t length;  // of the whole text, also of what did not fit
  int32_t depth;  // JSON strings that stand around what is added
} og_host_text;

// `out` may be NULL where size is 0: then the length is all that is found.
og_host_text og_host_text_begin(char *out, size_t size);
void og_host_text_add(og_host_text *text, const char *words);
void og_host_text_number(og_host_text *text, int64_t number);
// What is added until the matching close is itself the value of a JSON string.
void og_host_text_open(og_host_text *text);
void og_host_text_close(og_host_text *text);
// Ends the text with a NUL where there is room for one.
size_t og_host_text_end(og_host_text *text);

#endif  // OG_HOSTS_SHARED_TEXT_H
