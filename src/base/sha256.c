// SPDX-License-Identifier: Apache-2.0
// SHA-256. Source: FIPS 180-4, "Secure Hash Standard", 2015.

#include <string.h>

#include "base/text.h"

typedef struct sha256 {
  uint32_t state[8];
  uint8_t block[64];
} sha256;

// The first 32 bits of the fractional parts of the cube roots of the first 64
// primes.
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate(uint32_t x, int by) {
  return (x >> by) | (x << (32 - by));
}

static void schedule(const uint8_t *block, uint32_t *w) {
  for (int i = 0; i < 16; ++i)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
           (uint32_t)block[4 * i + 2] << 8 | (uint32_t)block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + w[i - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
  }
}

static void compress(uint32_t *state, const uint8_t *block) {
  uint32_t w[64], s[8];
  schedule(block, w);
  memcpy(s, state, sizeof s);
  // The working variables a to h stay where they are; their names move on.
#define NAMED(j) s[((j)-i) & 7]
  for (int i = 0; i < 64; ++i) {
    const uint32_t a = NAMED(0), b = NAMED(1), c = NAMED(2), e = NAMED(4);
    const uint32_t choose = (e & NAMED(5)) ^ (~e & NAMED(6));
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t t1 = NAMED(7) +
                        (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                        choose + round_constants[i] + w[i];
    const uint32_t t2 =
        (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    NAMED(3) += t1;
    NAMED(7) = t1 + t2;
  }
#undef NAMED
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

void og_sha256_hex(const void *data, size_t size_bytes, char out_hex[65]) {
  sha256 hash = {.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
  const uint8_t *bytes = data;
  size_t left = size_bytes;
  for (; left >= 64; left -= 64, bytes += 64) compress(hash.state, bytes);

  // What is left, a one bit, zeros, and the length in bits.
  if (left > 0) memcpy(hash.block, bytes, left);
  hash.block[left] = 0x80;
  if (left >= 56) {
    compress(hash.state, hash.block);
    memset(hash.block, 0, sizeof hash.block);
  }
  const uint64_t bits = (uint64_t)size_bytes * 8;
  for (int i = 0; i < 8; ++i)
    hash.block[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
  compress(hash.state, hash.block);

  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 64; ++i)
    out_hex[i] = digits[hash.state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  out_hex[64] = '\0';
}
