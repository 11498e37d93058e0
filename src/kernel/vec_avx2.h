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
enum { VW = 8 };

OG_V_INLINE __m256i v_iota_i(void) {
  return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
OG_V_INLINE __m256i v_mask(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), v_iota_i());
}
OG_V_INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
OG_V_INLINE vf v_set1(float x) { return _mm256_set1_ps(x); }
OG_V_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
OG_V_INLINE void v_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
OG_V_INLINE vf v_loadn(const float *p, int64_t n) {
  return _mm256_maskload_ps(p, v_mask(n));
}
OG_V_INLINE void v_storen(float *p, vf x, int64_t n) {
  _mm256_maskstore_ps(p, v_mask(n), x);
}
OG_V_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
OG_V_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
OG_V_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
OG_V_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
OG_V_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
OG_V_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
OG_V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
OG_V_INLINE vf v_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
OG_V_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
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
  return _mm256_mul_ps(_mm256_mul_ps(s, _mm256_castsi256_ps(a)),
                       _mm256_castsi256_ps(b));
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
  return _mm256_mul_ps(s, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
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
  return _mm256_blendv_ps(
      _mm256_set1_ps(fill), a,
      _mm256_castsi256_ps(_mm256_andnot_si256(outside, below)));
}
OG_V_INLINE __m256i v_bits(uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(
      _mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane);
}
OG_V_INLINE vf v_keep_bits(vf a, uint32_t bits, float fill) {
  return _mm256_blendv_ps(_mm256_set1_ps(fill), a,
                          _mm256_castsi256_ps(v_bits(bits)));
}
// Lanes whose bit is 1 are loaded, the others are those of a and not read.
OG_V_INLINE vf v_load_bits(vf a, const float *p, uint32_t bits) {
  const __m256i on = v_bits(bits);
  return _mm256_blendv_ps(a, _mm256_maskload_ps(p, on),
                          _mm256_castsi256_ps(on));
}
// Elements 0, 2, 4, ... of a and b behind each other.
OG_V_INLINE vf v_even(vf a, vf b) {
  const __m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}
OG_V_INLINE vf v_iota(void) { return _mm256_cvtepi32_ps(v_iota_i()); }

OG_V_INLINE vf v_bf16_widen(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
OG_V_INLINE __m128i v_bf16_narrow(vf x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i r =
      _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  r = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(r),
                                           _mm256_castsi256_ps(quiet), nan));
  r = _mm256_srli_epi32(r, 16);
  r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  return _mm256_castsi256_si128(r);
}
OG_V_INLINE __m128i v_load16(const uint16_t *p) {
  return _mm_loadu_si128((const void *)p);
}
OG_V_INLINE __m128i v_loadn16(const uint16_t *p, int64_t n) {
  uint16_t part[8] = {0};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return v_load16(part);
}
OG_V_INLINE void v_store16(uint16_t *p, __m128i x) {
  _mm_storeu_si128((void *)p, x);
}
OG_V_INLINE void v_storen16(uint16_t *p, __m128i x, int64_t n) {
  uint16_t part[8];
  v_store16(part, x);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}
OG_V_INLINE vf v_load_bf16(const uint16_t *p) {
  return v_bf16_widen(v_load16(p));
}
OG_V_INLINE vf v_loadn_bf16(const uint16_t *p, int64_t n) {
  return v_bf16_widen(v_loadn16(p, n));
}
OG_V_INLINE void v_store_bf16(uint16_t *p, vf x) {
  v_store16(p, v_bf16_narrow(x));
}
OG_V_INLINE void v_storen_bf16(uint16_t *p, vf x, int64_t n) {
  v_storen16(p, v_bf16_narrow(x), n);
}
// Of VW pairs of them, the first ones and the second ones.
OG_V_INLINE vf v_load_bf16_even(const uint16_t *p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_loadu_si256((const void *)p), 16));
}
OG_V_INLINE vf v_load_bf16_odd(const uint16_t *p) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(_mm256_loadu_si256((const void *)p),
                       _mm256_set1_epi32((int)0xffff0000u)));
}
// Bytes, as int8, as the upper half of f16, and as float8 of 4 exponent bits:
// f16 of other bias, whose 1.875 * 2^8 is a NaN.
typedef __m128i vb;
OG_V_INLINE vb v_load_bytes(const uint8_t *p) {
  return _mm_loadl_epi64((const void *)p);
}
OG_V_INLINE vb v_loadn_bytes(const uint8_t *p, int64_t n) {
  uint8_t part[8] = {0};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return v_load_bytes(part);
}
OG_V_INLINE vf v_i8(vb x) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}
OG_V_INLINE vf v_e5m2(vb x) {
  return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(x), 8));
}
OG_V_INLINE vf v_e4m3(vb x) {
  const __m128i wide = _mm_cvtepu8_epi16(x);
  const __m128i rest = _mm_and_si128(wide, _mm_set1_epi16(127));
  const __m128i sign = _mm_slli_epi16(_mm_sub_epi16(wide, rest), 8);
  const __m128i odd = _mm_and_si128(_mm_cmpeq_epi16(rest, _mm_set1_epi16(127)),
                                    _mm_set1_epi16(0x7c00));
  const __m128i half =
      _mm_or_si128(_mm_or_si128(_mm_slli_epi16(rest, 7), sign), odd);
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
}
OG_V_INLINE vf v_load_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(v_load16(p));
}
OG_V_INLINE vf v_loadn_f16(const uint16_t *p, int64_t n) {
  return _mm256_cvtph_ps(v_loadn16(p, n));
}
OG_V_INLINE void v_store_f16(uint16_t *p, vf x) {
  v_store16(p, _mm256_cvtps_ph(x, 0));
}
OG_V_INLINE void v_storen_f16(uint16_t *p, vf x, int64_t n) {
  v_storen16(p, _mm256_cvtps_ph(x, 0), n);
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

// Integers of 32 bits, and u: 4 bytes each.
OG_V_INLINE vi v_zero_i(void) { return _mm256_setzero_si256(); }
OG_V_INLINE vi v_set1_i(int32_t x) { return _mm256_set1_epi32(x); }
OG_V_INLINE vi v_load_i(const void *p) { return _mm256_loadu_si256(p); }
OG_V_INLINE vi v_add_i(vi a, vi b) { return _mm256_add_epi32(a, b); }
OG_V_INLINE vi v_sub_i(vi a, vi b) { return _mm256_sub_epi32(a, b); }
OG_V_INLINE vi v_times256(vi a) { return _mm256_slli_epi32(a, 8); }
OG_V_INLINE vf v_to_float(vi a) { return _mm256_cvtepi32_ps(a); }
// Bytes 0 and 2, and 1 and 3, as pairs of 16 bits.
OG_V_INLINE vi v_bytes_even(vi u) {
  return _mm256_and_si256(u, _mm256_set1_epi32(0xff00ff));
}
OG_V_INLINE vi v_bytes_odd(vi u) { return _mm256_srli_epi16(u, 8); }
// The low and the high halves of bytes.
OG_V_INLINE vi v_nibbles_low(vi u) {
  return _mm256_and_si256(u, _mm256_set1_epi8(15));
}
OG_V_INLINE vi v_nibbles_high(vi u) {
  return v_nibbles_low(_mm256_srli_epi16(u, 4));
}
// The sum of the two products of signed pairs.
OG_V_INLINE vi v_madd(vi a, vi b) { return _mm256_madd_epi16(a, b); }
// c + the sum of the four products of unsigned u, to 15, and signed b.
OG_V_INLINE vi v_low_dots(vi c, vi u, vi b) {
  const vi pairs = _mm256_maddubs_epi16(u, b);
  return _mm256_add_epi32(c, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// c + the sum of the four products of unsigned u and signed b.
// Of VNNI; gcc 12 keeps the intrinsic's sums in memory.
OG_V_INLINE vi v_dots(vi c, vi u, vi b) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c) : "x"(u), "x"(b));
  return c;
}
