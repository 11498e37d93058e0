// SPDX-License-Identifier: Apache-2.0
// A graph file's checksums made right (docs/graph-file.md), so that what lies
// behind them is reached.

#ifndef OG_TESTS_GRAPH_SEAL_H
#define OG_TESTS_GRAPH_SEAL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "graph/blocks.h"
#include "graph/file.h"

// Where the first line has its numbers.
enum {
  SEAL_CHECKSUM_AT = 42,
  SEAL_TEXT_AT = 64,
  SEAL_TABLE_AT = 87,
  SEAL_DATA_AT = 109,
  SEAL_DATA_BYTES_AT = 126,
  SEAL_PACKED_AT = 150,
};

static inline bool is_file(const void *bytes, size_t size) {
  return size >= OG_FILE_HEADER_BYTES &&
         memcmp(bytes, "#opgraft graph file ", 20) == 0;
}

static uint64_t seal_number(const char *bytes, size_t at) {
  char digits[17] = "";
  memcpy(digits, bytes + at, 16);
  return strtoull(digits, NULL, 16);
}

static void seal_data(char *bytes, size_t size, const og_file_header *head) {
  const size_t begin = (size_t)head->data_offset;
  const size_t count = (size_t)og_blocks_count(size - begin);
  if (begin < OG_FILE_HEADER_BYTES + 8 * count) return;
  for (size_t i = 0; i < count; ++i) {
    uint64_t sum = og_block_sum(bytes + begin, size - begin, (int64_t)i);
    char *to = bytes + begin - 8 * (count - i);
    for (int b = 0; b < 8; ++b, sum >>= 8) to[b] = (char)(sum & 255);
  }
}

// Of bytes that are a file.
static inline void seal(char *bytes, size_t size) {
  char digits[17];
  const og_file_header head = {.data_offset = seal_number(bytes, SEAL_DATA_AT)};
  if (head.data_offset < OG_FILE_HEADER_BYTES || head.data_offset > size)
    return;
  seal_data(bytes, size, &head);
  snprintf(digits, sizeof digits, "%016llx",
           (unsigned long long)og_checksum(
               bytes + OG_FILE_COVERED_AT,
               (size_t)head.data_offset - OG_FILE_COVERED_AT));
  memcpy(bytes + SEAL_CHECKSUM_AT, digits, 16);
}

#endif  // OG_TESTS_GRAPH_SEAL_H
