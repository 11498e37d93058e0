// SPDX-License-Identifier: Apache-2.0
// What a test tool does first and last, so that the text runner can make its
// allocations fail: OPGRAFT_TEST_FAIL_ALLOC=n fails the nth and all later ones.
//
//   int main(int argc, char **argv) {
//     tool_begin();
//     const int rc = work(argc, argv);  // frees what it made, also on failure
//     return tool_end(rc);
//   }

#ifndef OG_TOOL_H
#define OG_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

// The exit status that tells the runner that allocation n was never asked for.
enum { TOOL_NOT_MET = 77 };

static bool tool_has_fault;

static inline void tool_begin(void) {
  const char *text = getenv("OPGRAFT_TEST_FAIL_ALLOC");
  tool_has_fault = text != NULL;
  if (tool_has_fault) og_alloc_fail_at(strtoll(text, NULL, 10));
}

static inline int tool_end(int exit_status) {
  if (!tool_has_fault) return exit_status;
  void *probe = og_alloc(1);
  og_free(probe);
  return probe ? TOOL_NOT_MET : exit_status;
}

// All of standard input, NUL-terminated; the caller frees it with free(). It
// does not come from the library's allocator: reading is not what is tested.
static inline char *tool_read_input(size_t *out_size) {
  size_t size = 0, capacity = 4096;
  char *data = (char *)malloc(capacity);
  while (data != NULL) {
    size += fread(data + size, 1, capacity - size - 1, stdin);
    if (size + 1 < capacity) break;
    char *grown = (char *)realloc(data, capacity *= 2);
    if (grown == NULL) free(data);
    data = grown;
  }
  if (data != NULL) data[size] = '\0';
  if (out_size != NULL) *out_size = size;
  return data;
}

#endif  // OG_TOOL_H
