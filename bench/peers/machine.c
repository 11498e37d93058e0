// SPDX-License-Identifier: Apache-2.0
// The machine's own limits: FMA throughput of an instruction set, bf16 dot
// products, and reading memory. Called from several threads at once.

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx2,fma"))) double fma_avx2(int64_t rounds) {
#define START(i) __m256 c##i = _mm256_set1_ps(i + 1.0f);
#define STEP(i) c##i = _mm256_fmadd_ps(c##i, a, b);
#define FOLD(i) a = _mm256_add_ps(a, c##i);
  __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm256_cvtss_f32(a);
  (void)sink;
  return 12.0 * 8 * 2 * (double)rounds;
#undef START
#undef STEP
#undef FOLD
}

__attribute__((target("avx512f"))) double fma_avx512(int64_t rounds) {
#define START(i) __m512 c##i = _mm512_set1_ps(i + 1.0f);
#define STEP(i) c##i = _mm512_fmadd_ps(c##i, a, b);
#define FOLD(i) a = _mm512_add_ps(a, c##i);
  __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm512_cvtss_f32(a);
  (void)sink;
  return 12.0 * 16 * 2 * (double)rounds;
#undef START
#undef STEP
#undef FOLD
}

__attribute__((target("avx512f,avx512bf16"))) double dot_bf16(int64_t rounds) {
#define START(i) \
  __m512 c##i = _mm512_set1_ps(i + 1.0f);  // equal ones would be one chain
#define STEP(i) c##i = _mm512_dpbf16_ps(c##i, (__m512bh)a, (__m512bh)b);
#define FOLD(i) sum = _mm512_add_ps(sum, c##i);
  __m512i a = _mm512_set1_epi16(0x3f80), b = _mm512_set1_epi16(0x3c00);
  __m512 sum = _mm512_setzero_ps();
  CHAINS(START)
  for (int64_t r = 0; r < rounds; ++r) {
    CHAINS(STEP)
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  CHAINS(FOLD)
  volatile float sink = _mm512_cvtss_f32(sum);
  (void)sink;
  return 12.0 * 32 * 2 * (double)rounds;
}
#endif

// Reads `bytes` bytes, a multiple of 512.
uint64_t read_memory(const uint64_t *p, size_t bytes) {
  uint64_t s[8] = {0};
  for (size_t i = 0; i < bytes / 8; i += 64)
    for (size_t j = 0; j < 64; ++j) s[j % 8] += p[i + j];
  return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}
