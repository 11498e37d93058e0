// SPDX-License-Identifier: Apache-2.0
// The data of a graph file in blocks, each checked where it is first read.
//
// Invariant: a block that is RIGHT stays so, since the file stays as it is.

#include "graph/blocks.h"

#include "base/checksum.h"

enum { UNKNOWN, WANTED, RIGHT };

int64_t og_blocks_count(uint64_t size_bytes) {
  return (int64_t)((size_bytes + OG_BLOCK_BYTES - 1) / OG_BLOCK_BYTES);
}

uint64_t og_block_sum(const char *data, size_t size_bytes, int64_t index) {
  const size_t begin = (size_t)index * OG_BLOCK_BYTES;
  const size_t left = size_bytes - begin;
  return og_checksum(data + begin,
                     left < OG_BLOCK_BYTES ? left : (size_t)OG_BLOCK_BYTES);
}

// Blocks [*out_begin, *out_end) hold these bytes; false: none does.
static bool range_find(const og_blocks *blocks, const void *at,
                       size_t size_bytes, int32_t *out_begin,
                       int32_t *out_end) {
  const uintptr_t distance = (uintptr_t)at - (uintptr_t)blocks->data;
  if (blocks->count == 0 || size_bytes == 0 || distance >= blocks->size_bytes ||
      size_bytes > blocks->size_bytes - distance)
    return false;
  *out_begin = (int32_t)(distance / OG_BLOCK_BYTES);
  *out_end = (int32_t)((distance + size_bytes - 1) / OG_BLOCK_BYTES) + 1;
  return true;
}

void og_blocks_want(const og_blocks *blocks, const void *at,
                    size_t size_bytes) {
  int32_t begin, end;
  if (!range_find(blocks, at, size_bytes, &begin, &end)) return;
  for (int32_t i = begin; i < end; ++i) {
    uint8_t expected = UNKNOWN;
    __atomic_compare_exchange_n(&blocks->states[i], &expected, WANTED, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
}

int32_t og_blocks_wanted(const og_blocks *blocks, int32_t *out_indices) {
  int32_t count = 0;
  for (int32_t i = 0; i < blocks->count; ++i) {
    if (__atomic_load_n(&blocks->states[i], __ATOMIC_RELAXED) != WANTED)
      continue;
    if (out_indices != NULL) out_indices[count] = i;
    ++count;
  }
  return count;
}

static uint64_t sum_read(const char *at) {
  uint64_t sum = 0;
  for (int i = 7; i >= 0; --i) sum = sum << 8 | (unsigned char)at[i];
  return sum;
}

bool og_block_check(const og_blocks *blocks, int32_t index) {
  uint8_t *state = &blocks->states[index];
  if (__atomic_load_n(state, __ATOMIC_RELAXED) == RIGHT) return true;
  if (og_block_sum(blocks->data, blocks->size_bytes, index) !=
      sum_read(blocks->sums + (size_t)index * 8))
    return false;
  __atomic_store_n(state, RIGHT, __ATOMIC_RELAXED);
  return true;
}

og_status og_blocks_altered(const og_blocks *blocks, opgraft_error *error) {
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "%s: the file was altered: a checksum of its data is "
                      "not that of what it holds; copy or export it again",
                      blocks->path);
}

bool og_blocks_have(const og_blocks *blocks, const void *at) {
  int32_t begin, end;
  return range_find(blocks, at, 1, &begin, &end);
}

bool og_blocks_hold(const og_blocks *blocks, const void *at,
                    size_t size_bytes) {
  int32_t begin, end;
  if (!range_find(blocks, at, size_bytes, &begin, &end)) return true;
  for (int32_t i = begin; i < end; ++i)
    if (!og_block_check(blocks, i)) return false;
  return true;
}

og_status og_blocks_check(const og_blocks *blocks, const void *at,
                          size_t size_bytes, opgraft_error *error) {
  return og_blocks_hold(blocks, at, size_bytes)
             ? OG_OK
             : og_blocks_altered(blocks, error);
}
