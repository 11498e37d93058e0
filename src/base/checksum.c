// SPDX-License-Identifier: Apache-2.0
// Lanes of 64 bits, each word mixed into one by steps that can be undone, so
// that no single word's change can vanish.
//
// There are as many lanes as fill the registers of a machine while each waits
// for its product, and the factor has 32 bits, so that vectors multiply by it
// in two steps. Every instruction set gives the same sum.

#include "base/checksum.h"

#include <string.h>

#include "base/loops.h"

enum {
  LANES = 32,
  BLOCK_BYTES = LANES * 8,
  LINE_BYTES = 64,
  AHEAD_BYTES = 4096,  // so far ahead memory is prefetched
  TURN = 29,
};

static const uint64_t factor = 0x9e3779b1u;  // odd: can be undone

static uint64_t mix(uint64_t sum, uint64_t word) {
  const uint64_t product = (sum ^ word) * factor;
  return product << TURN | product >> (64 - TURN);
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

static inline void block_prefetch(const unsigned char *at, int64_t left) {
  const unsigned char *ahead =
      at + (left > AHEAD_BYTES / BLOCK_BYTES ? (int)AHEAD_BYTES : 0);
  for (int i = 0; i < BLOCK_BYTES; i += LINE_BYTES)
    __builtin_prefetch(ahead + i);
}

// --- Blocks, by instruction set ----------------------------------------------

static void blocks_add(uint64_t *lanes, const unsigned char *at,
                       int64_t count) {
  for (; count > 0; --count, at += BLOCK_BYTES) {
    block_prefetch(at, count);
    for (int i = 0; i < LANES; ++i)
      lanes[i] = mix(lanes[i], word_at(at + 8 * i));
  }
}

#if OG_LOOPS_HAVE_AVX2

#include <immintrin.h>

OG_LOOPS_AVX2_FMA static inline __m256i mix_avx2(__m256i sum,
                                                 const unsigned char *at,
                                                 __m256i by) {
  const __m256i word = _mm256_loadu_si256((const __m256i *)(const void *)at);
  const __m256i x = _mm256_xor_si256(sum, word);
  const __m256i low = _mm256_mul_epu32(x, by);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), by);
  const __m256i product = _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
  return _mm256_or_si256(_mm256_slli_epi64(product, TURN),
                         _mm256_srli_epi64(product, 64 - TURN));
}

OG_LOOPS_AVX512 static inline __m512i mix_avx512(__m512i sum,
                                                 const unsigned char *at,
                                                 __m512i by) {
  const __m512i x = _mm512_xor_si512(sum, _mm512_loadu_si512(at));
  const __m512i low = _mm512_mul_epu32(x, by);
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), by);
  return _mm512_rol_epi64(_mm512_add_epi64(low, _mm512_slli_epi64(high, 32)),
                          TURN);
}

// Unrolled, so that all lanes stay in registers.
#define BLOCKS_ADD(name, TARGET, vector, broadcast, mix)                  \
  TARGET static void name(uint64_t *lanes, const unsigned char *at,       \
                          int64_t count) {                                \
    enum { VECTORS = BLOCK_BYTES / (int)sizeof(vector) };                 \
    const vector by = broadcast((long long)factor);                       \
    vector sums[VECTORS];                                                 \
    memcpy(sums, lanes, sizeof sums);                                     \
    for (; count > 0; --count, at += BLOCK_BYTES) {                       \
      block_prefetch(at, count);                                          \
      _Pragma("GCC unroll 8") for (int i = 0; i < VECTORS; ++i) sums[i] = \
          mix(sums[i], at + i * (int)sizeof(vector), by);                 \
    }                                                                     \
    memcpy(lanes, sums, sizeof sums);                                     \
  }
BLOCKS_ADD(blocks_add_avx2, OG_LOOPS_AVX2_FMA, __m256i, _mm256_set1_epi64x,
           mix_avx2)
BLOCKS_ADD(blocks_add_avx512, OG_LOOPS_AVX512, __m512i, _mm512_set1_epi64,
           mix_avx512)

#endif

typedef void (*blocks_fn)(uint64_t *lanes, const unsigned char *at,
                          int64_t count);

static blocks_fn blocks_fn_get(void) {
#if OG_LOOPS_HAVE_AVX2
  if (og_loops_use_avx512()) return blocks_add_avx512;
  if (og_loops_use_avx2()) return blocks_add_avx2;
#endif
  return blocks_add;
}

// --- Sums --------------------------------------------------------------------

uint64_t og_checksum(const void *data, size_t size_bytes) {
  uint64_t lanes[LANES];
  unsigned char last[BLOCK_BYTES] = {0};
  const size_t whole = size_bytes / BLOCK_BYTES * BLOCK_BYTES;
  for (int i = 0; i < LANES; ++i) lanes[i] = (uint64_t)i + 1;
  blocks_fn_get()(lanes, data, (int64_t)(whole / BLOCK_BYTES));
  if (size_bytes > whole)
    memcpy(last, (const char *)data + whole, size_bytes - whole);
  blocks_add(lanes, last, 1);
  uint64_t sum = size_bytes;
  for (int i = 0; i < LANES; ++i) sum = mix(sum, lanes[i]);
  return sum ^ sum >> 32;
}
