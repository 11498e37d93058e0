// SPDX-License-Identifier: Apache-2.0
// AVX2 with FMA and F16C: 8 floats. Included by vec.h only.

#include <immintrin.h>

#define OG_V_HAS_FMA 1
#define OG_V_HAS_MASKS 0
#define OG_V_HAS_BF16_DOTS 0
#define OG_TARGET __attribute__((target("avx2,fma,f16c")))
#define OG_V_INLINE static inline __attribute__((always_inline)) OG_TARGET

typedef __m256 vf;
typedef __m256i vi;
typedef __m128i vh;  // VW elements of 16 bits
typedef __m128i vb;  // VW bytes
enum { VW = 8 };

OG_V_INLINE __m256i v_iota_i(void) {
  return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
OG_V_INLINE __m256i v_mask(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), v_iota_i());
}
OG_V_INLINE vf v_of_bits(vi x) { return _mm256_castsi256_ps(x); }
OG_V_INLINE vh v_bf16_narrow(vf x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i r =
      _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  r = _mm256_castps_si256(
      _mm256_blendv_ps(v_of_bits(r), v_of_bits(quiet), nan));
  r = _mm256_srli_epi32(r, 16);
  r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  return _mm256_castsi256_si128(r);
}
OG_V_INLINE vh v_loadn16(const uint16_t *p, int64_t n) {
  uint16_t part[8] = {0};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return _mm_loadu_si128((const void *)part);
}
OG_V_INLINE void v_storen16(uint16_t *p, vh x, int64_t n) {
  uint16_t part[8];
  _mm_storeu_si128((void *)part, x);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

#define V(name) _mm256_##name
#define H(name) _mm_##name
#define V_BITS(name) _mm256_##name##_si256
#define H_BITS(name) _mm_##name##_si128
#include "kernel/vec_x86.h"

OG_V_INLINE vf v_loadn(const float *p, int64_t n) {
  return _mm256_maskload_ps(p, v_mask(n));
}
OG_V_INLINE void v_storen(float *p, vf x, int64_t n) {
  _mm256_maskstore_ps(p, v_mask(n), x);
}
OG_V_INLINE vf v_floor(vf a) { return _mm256_floor_ps(a); }
OG_V_INLINE vf v_round(vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// s * 2^n for whole n in [-252, 254], in two steps so that results below the
// smallest normal number come out right.
OG_V_INLINE vf v_scale2(vf s, vf n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(s, v_of_bits(a)), v_of_bits(b));
}
// Splits x < 128 into its floor, -127 at least, and a rest in [0, 1).
OG_V_INLINE vf v_exp2_split(vf x, vf *out_rest) {
  x = v_max(v_set1(-127.0f), x);  // in this order a NaN stays
  const vf whole = v_floor(x);
  *out_rest = v_sub(x, whole);
  return whole;
}
// s * 2^n for whole n in [-127, 127]; 0 for -127.
OG_V_INLINE vf v_exp2_join(vf s, vf n) {
  const __m256i biased =
      _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(s, v_of_bits(_mm256_slli_epi32(biased, 23)));
}
OG_V_INLINE vf v_select_lt(vf a, vf b, vf x, vf y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
// By lane: x is NaN ? a : b.
OG_V_INLINE vf v_select_nan(vf x, vf a, vf b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
OG_V_INLINE float v_sum(vf a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
OG_V_INLINE float v_hmax(vf a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
OG_V_INLINE int v_lane_limit(int64_t n) {
  return n < 0 ? 0 : n > 8 ? 8 : (int)n;
}
OG_V_INLINE vf v_keep(vf a, int64_t lo, int64_t hi, float fill) {
  const __m256i below =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(v_lane_limit(hi)), v_iota_i());
  const __m256i outside =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(v_lane_limit(lo)), v_iota_i());
  return _mm256_blendv_ps(_mm256_set1_ps(fill), a,
                          v_of_bits(_mm256_andnot_si256(outside, below)));
}
OG_V_INLINE __m256i v_bits(uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(
      _mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane);
}
OG_V_INLINE vf v_keep_bits(vf a, uint32_t bits, float fill) {
  return _mm256_blendv_ps(_mm256_set1_ps(fill), a, v_of_bits(v_bits(bits)));
}
// Lanes whose bit is 1 are loaded, the others are those of a and not read.
OG_V_INLINE vf v_load_bits(vf a, const float *p, uint32_t bits) {
  const __m256i on = v_bits(bits);
  return _mm256_blendv_ps(a, _mm256_maskload_ps(p, on), v_of_bits(on));
}
// Elements 0, 2, 4, ... of a and b behind each other.
OG_V_INLINE vf v_even(vf a, vf b) {
  const __m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}
OG_V_INLINE vf v_iota(void) { return _mm256_cvtepi32_ps(v_iota_i()); }

OG_V_INLINE vb v_load_bytes(const uint8_t *p) {
  return _mm_loadl_epi64((const void *)p);
}
OG_V_INLINE vb v_loadn_bytes(const uint8_t *p, int64_t n) {
  uint8_t part[8] = {0};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return v_load_bytes(part);
}

OG_V_INLINE void v_sum4(vf a, vf b, vf c, vf d, float *out) {
  const vf all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all),
                                _mm256_extractf128_ps(all, 1)));
}

OG_V_INLINE void v_max4(vf a, vf b, vf c, vf d, float *out) {
  const vf ab = v_max(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const vf cd = v_max(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const vf all =
      v_max(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(all),
                                _mm256_extractf128_ps(all, 1)));
}

OG_V_INLINE void v_transpose(vf *r) {
  vf t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
    r[4 + i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
  }
}

// c + the sum of the four products of unsigned u and signed b.
// Of VNNI; gcc 12 keeps the intrinsic's sums in memory.
OG_V_INLINE vi v_dots(vi c, vi u, vi b) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c) : "x"(u), "x"(b));
  return c;
}
