// SPDX-License-Identifier: Apache-2.0
// The data of a graph file in blocks, each checked where it is first read
// (docs/graph-file.md). Any number of threads may want and check at once.

#ifndef OG_GRAPH_BLOCKS_H
#define OG_GRAPH_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { OG_BLOCK_BYTES = 1 << 16 };

// Zeroed: nothing is to be checked.
typedef struct og_blocks {
  const char *data;  // block 0 begins here
  size_t size_bytes;
  const char *sums;  // 8 bytes each, little-endian
  uint8_t *states;   // atomic, by block
  int32_t count;
  const char *path;  // for messages
} og_blocks;

// How many blocks so many bytes have.
int64_t og_blocks_count(uint64_t size_bytes);
// The sum of block `index` of this data.
uint64_t og_block_sum(const char *data, size_t size_bytes, int64_t index);

// Marks what holds these bytes; bytes elsewhere are not the file's.
void og_blocks_want(const og_blocks *blocks, const void *at, size_t size_bytes);
// The marked blocks that are not known to be right, in out_indices, which may
// be NULL and else has room for all; returns how many.
int32_t og_blocks_wanted(const og_blocks *blocks, int32_t *out_indices);
// Whether the block is as it was written.
bool og_block_check(const og_blocks *blocks, int32_t index);
// OG_INVALID, with the file's name: a block is not.
og_status og_blocks_altered(const og_blocks *blocks, opgraft_error *error);
// Whether it lies in them.
bool og_blocks_have(const og_blocks *blocks, const void *at);
// Checks these bytes on this thread; false: they are not as they were written.
bool og_blocks_hold(const og_blocks *blocks, const void *at, size_t size_bytes);
// The same, with the error.
og_status og_blocks_check(const og_blocks *blocks, const void *at,
                          size_t size_bytes, opgraft_error *error);

#endif  // OG_GRAPH_BLOCKS_H
