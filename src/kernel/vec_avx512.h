// SPDX-License-Identifier: Apache-2.0
// AVX-512: 16 floats. Included by vec.h only.

#include <immintrin.h>

#define OG_V_HAS_FMA 1
#define OG_V_HAS_MASKS 1
#ifndef OG_V_HAS_BF16_DOTS
#define OG_V_HAS_BF16_DOTS 0
#endif

// All processors with AVX-512 prefetch lines that are written (prfchw).
#if OG_V_HAS_BF16_DOTS
#define OG_TARGET                                                        \
  __attribute__((                                                        \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi," \
             "avx2,fma,f16c,prfchw")))
#else
#define OG_TARGET \
  __attribute__(( \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw")))
#endif
#define OG_V_INLINE static inline __attribute__((always_inline)) OG_TARGET

typedef __m512 vf;
typedef __m512i vi;
typedef __m256i vh;  // VW elements of 16 bits
typedef __m128i vb;  // VW bytes
enum { VW = 16 };

OG_V_INLINE __mmask16 v_mask(int64_t n) { return (__mmask16)((1u << n) - 1); }
OG_V_INLINE vf v_of_bits(vi x) { return _mm512_castsi512_ps(x); }
// To nearest even; a NaN keeps its quiet bit. The processor's own conversion
// makes zeros of numbers whose exponent is 0.
OG_V_INLINE vh v_bf16_narrow(vf x) {
#if OG_V_HAS_BF16_DOTS
  enum { DENORMAL = 0x20 };
  if (__builtin_expect(_mm512_fpclass_ps_mask(x, DENORMAL) == 0, 1))
    return (vh)_mm512_cvtneps_pbh(x);
#endif
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r =
      _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
OG_V_INLINE vh v_loadn16(const uint16_t *p, int64_t n) {
  return _mm256_maskz_loadu_epi16(v_mask(n), p);
}
OG_V_INLINE void v_storen16(uint16_t *p, vh x, int64_t n) {
  _mm256_mask_storeu_epi16(p, v_mask(n), x);
}

#define V(name) _mm512_##name
#define H(name) _mm256_##name
#define V_BITS(name) _mm512_##name##_si512
#define H_BITS(name) _mm256_##name##_si256
#include "kernel/vec_x86.h"

OG_V_INLINE vf v_loadn(const float *p, int64_t n) {
  return _mm512_maskz_loadu_ps(v_mask(n), p);
}
OG_V_INLINE void v_storen(float *p, vf x, int64_t n) {
  _mm512_mask_storeu_ps(p, v_mask(n), x);
}
OG_V_INLINE vf v_floor(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
OG_V_INLINE vf v_round(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// s * 2^n for whole n; under- and overflow as they should.
OG_V_INLINE vf v_scale2(vf s, vf n) { return _mm512_scalef_ps(s, n); }
// Splits x into what v_exp2_join scales by and a rest in [0, 1). Any x: scalef
// takes the floor itself, and the rest of an infinite x is 0.
OG_V_INLINE vf v_exp2_split(vf x, vf *out_rest) {
  *out_rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);
  return x;
}
OG_V_INLINE vf v_exp2_join(vf s, vf x) { return _mm512_scalef_ps(s, x); }
// 2^(j / 32), where j is the last five bits of each lane.
OG_V_INLINE vf v_exp2_32nds(vf bits) {
  const vf low = _mm512_setr_ps(
      1.0f, 1.0218972f, 1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,
      1.13878858f, 1.1637249f, 1.18920708f, 1.21524739f, 1.24185777f,
      1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f);
  const vf high =
      _mm512_setr_ps(1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f,
                     1.54221082f, 1.5759809f, 1.61049032f, 1.64575553f,
                     1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f,
                     1.8340081f, 1.87416768f, 1.91520655f, 1.95714414f);
  return _mm512_permutex2var_ps(low, _mm512_castps_si512(bits), high);
}
// a between -most and most; most where a is NaN.
OG_V_INLINE vf v_within(vf a, float most) {
  enum { LEAST_SIZE = 2 };  // and the first one's sign
  return _mm512_range_ps(a, _mm512_set1_ps(most), LEAST_SIZE);
}
// a < b ? x : y, by lane.
OG_V_INLINE vf v_select_lt(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
// By lane: x is NaN ? a : b.
OG_V_INLINE vf v_select_nan(vf x, vf a, vf b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), b, a);
}
OG_V_INLINE float v_sum(vf a) { return _mm512_reduce_add_ps(a); }
OG_V_INLINE float v_hmax(vf a) { return _mm512_reduce_max_ps(a); }
// Lanes below lo or from hi on become `fill`.
OG_V_INLINE vf v_keep(vf a, int64_t lo, int64_t hi, float fill) {
  const uint32_t upper = hi >= 16 ? 0xffffu : hi <= 0 ? 0 : (1u << hi) - 1;
  const uint32_t lower = lo >= 16 ? 0xffffu : lo <= 0 ? 0 : (1u << lo) - 1;
  return _mm512_mask_blend_ps((__mmask16)(upper & ~lower), _mm512_set1_ps(fill),
                              a);
}
// Lanes whose bit is 0 become `fill`.
OG_V_INLINE vf v_keep_bits(vf a, uint32_t bits, float fill) {
  return _mm512_mask_blend_ps((__mmask16)bits, _mm512_set1_ps(fill), a);
}
// Lanes whose bit is 1 are loaded, the others are those of a and not read.
OG_V_INLINE vf v_load_bits(vf a, const float *p, uint32_t bits) {
  return _mm512_mask_loadu_ps(a, (__mmask16)bits, p);
}
// Elements 0, 2, 4, ... of a and b behind each other.
OG_V_INLINE vf v_even(vf a, vf b) {
  const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                          22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, order, b);
}
OG_V_INLINE vf v_iota(void) {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

OG_V_INLINE vb v_load_bytes(const uint8_t *p) {
  return _mm_loadu_si128((const void *)p);
}
OG_V_INLINE vb v_loadn_bytes(const uint8_t *p, int64_t n) {
  return _mm_maskz_loadu_epi8(v_mask(n), p);
}

// Four vectors to one number each, by one operation on pairs.
#define V_FOLD4(name, op)                                                     \
  OG_V_INLINE void name(vf a, vf b, vf c, vf d, float *out) {                 \
    const vf ab =                                                             \
        _mm512_##op##_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); \
    const vf cd =                                                             \
        _mm512_##op##_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)); \
    const __m512d lo =                                                        \
        _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));       \
    const __m512d hi =                                                        \
        _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));       \
    const vf all =                                                            \
        _mm512_##op##_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));         \
    const __m256 half = _mm256_##op##_ps(_mm512_castps512_ps256(all),         \
                                         _mm512_extractf32x8_ps(all, 1));     \
    _mm_storeu_ps(out, _mm_##op##_ps(_mm256_castps256_ps128(half),            \
                                     _mm256_extractf128_ps(half, 1)));        \
  }
V_FOLD4(v_sum4, add)
V_FOLD4(v_max4, max)
#undef V_FOLD4

// r[i][j] becomes r[j][i].
OG_V_INLINE void v_transpose(vf *r) {
  __m512i t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    const __m512i a = _mm512_castps_si512(r[i]);
    const __m512i b = _mm512_castps_si512(r[i + 1]);
    t[i] = _mm512_unpacklo_epi32(a, b);
    t[i + 1] = _mm512_unpackhi_epi32(a, b);
  }
  for (int i = 0; i < 16; i += 4) {
    u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(u[i], u[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(u[i], u[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(u[8 + i], u[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(u[8 + i], u[12 + i], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    const __m512i lo = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    const __m512i hi = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    r[i] = _mm512_castsi512_ps(lo);
    r[8 + i] = _mm512_castsi512_ps(hi);
  }
}

// c + the sum of the four products of unsigned u and signed b.
// Of VNNI; gcc 12 keeps the intrinsic's sums in memory.
OG_V_INLINE vi v_dots(vi c, vi u, vi b) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(u), "v"(b));
  return c;
}
