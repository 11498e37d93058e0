// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input as decisions: what is taken from no bytes is 0.

#ifndef OG_FUZZ_BYTES_H
#define OG_FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

static inline uint32_t take(bytes *in, uint32_t below) {
  if (in->left == 0) return 0;
  --in->left;
  return *in->at++ % below;
}

static inline uint64_t take_bits(bytes *in, int32_t count) {
  uint64_t x = 0;
  for (int32_t i = 0; i < count; ++i) x = x << 8 | take(in, 256);
  return x;
}

// A small number, or one about which arithmetic ends.
static inline int64_t take_int(bytes *in) {
  static const int64_t edges[] = {
      0,         INT32_MIN,     INT32_MAX, (int64_t)UINT32_MAX + 1,
      INT64_MIN, INT64_MAX,     1ll << 62, INT16_MAX,
      128,       INT64_MAX / 2,
  };
  const uint32_t kind = take(in, 16);
  if (kind >= sizeof edges / sizeof *edges) return (int8_t)take_bits(in, 1);
  const int64_t edge = edges[kind], step = (int64_t)take(in, 5) - 2;
  int64_t moved;
  return __builtin_add_overflow(edge, step, &moved) ? edge : moved;
}

#endif  // OG_FUZZ_BYTES_H
