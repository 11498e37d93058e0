// SPDX-License-Identifier: Apache-2.0
// Portable C: 4 floats, which the compiler lowers to whatever the machine has.
// Included by vec.h only.

#include <opgraft/op.h>

#define OG_V_HAS_FMA 0
#define OG_V_HAS_MASKS 0
#define OG_V_HAS_BF16_DOTS 0
#define OG_TARGET
#define OG_V_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
enum { VW = 4 };

OG_V_INLINE vf v_zero(void) { return (vf){0, 0, 0, 0}; }
OG_V_INLINE vf v_set1(float x) { return (vf){x, x, x, x}; }
OG_V_INLINE vf v_load(const float *p) {
  vf x;
  memcpy(&x, p, sizeof x);
  return x;
}
OG_V_INLINE void v_store(float *p, vf x) { memcpy(p, &x, sizeof x); }
OG_V_INLINE vf v_loadn(const float *p, int64_t n) {
  vf x = v_zero();
  for (int64_t i = 0; i < n; ++i) x[i] = p[i];
  return x;
}
OG_V_INLINE void v_storen(float *p, vf x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = x[i];
}
OG_V_INLINE vf v_blend(vi on, vf x, vf y) {
  return (vf)(((vi)x & on) | ((vi)y & ~on));
}
OG_V_INLINE vf v_add(vf a, vf b) { return a + b; }
OG_V_INLINE vf v_sub(vf a, vf b) { return a - b; }
OG_V_INLINE vf v_mul(vf a, vf b) { return a * b; }
OG_V_INLINE vf v_div(vf a, vf b) { return a / b; }
OG_V_INLINE vf v_max(vf a, vf b) { return v_blend(a > b, a, b); }
OG_V_INLINE vf v_min(vf a, vf b) { return v_blend(a < b, a, b); }
OG_V_INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
OG_V_INLINE vf v_neg(vf a) { return -a; }
OG_V_INLINE vf v_sqrt(vf a) {
  for (int i = 0; i < VW; ++i) a[i] = sqrtf(a[i]);
  return a;
}
OG_V_INLINE vf v_floor(vf a) {
  for (int i = 0; i < VW; ++i) a[i] = floorf(a[i]);
  return a;
}
OG_V_INLINE vf v_round(vf a) {
  for (int i = 0; i < VW; ++i) a[i] = nearbyintf(a[i]);
  return a;
}
OG_V_INLINE vf v_scale2(vf s, vf n) {
  // Where n is NaN, so is s.
  for (int i = 0; i < VW; ++i)
    s[i] = ldexpf(s[i], n[i] == n[i] ? (int)n[i] : 0);
  return s;
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
  for (int i = 0; i < VW; ++i) {
    // The comparison gives a NaN a number that may be converted.
    const int32_t power = n[i] > -127 ? (int32_t)n[i] : -127;
    const og_float_bits scale = {.u = (uint32_t)(power + 127) << 23};
    s[i] *= scale.f;
  }
  return s;
}
OG_V_INLINE vf v_select_lt(vf a, vf b, vf x, vf y) {
  return v_blend(a < b, x, y);
}
// By lane: x is NaN ? a : b.
OG_V_INLINE vf v_select_nan(vf x, vf a, vf b) { return v_blend(x != x, a, b); }
OG_V_INLINE float v_sum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
OG_V_INLINE float v_hmax(vf a) {
  const float lo = a[0] > a[1] ? a[0] : a[1];
  const float hi = a[2] > a[3] ? a[2] : a[3];
  return lo > hi ? lo : hi;
}
OG_V_INLINE vf v_keep(vf a, int64_t lo, int64_t hi, float fill) {
  for (int i = 0; i < VW; ++i)
    if (i < lo || i >= hi) a[i] = fill;
  return a;
}
OG_V_INLINE vf v_keep_bits(vf a, uint32_t bits, float fill) {
  for (int i = 0; i < VW; ++i)
    if (!(bits >> i & 1u)) a[i] = fill;
  return a;
}
OG_V_INLINE vf v_load_bits(vf a, const float *p, uint32_t bits) {
  for (int i = 0; i < VW; ++i)
    if (bits >> i & 1u) a[i] = p[i];
  return a;
}
// Elements 0, 2, 4, ... of a and b behind each other.
OG_V_INLINE vf v_even(vf a, vf b) { return (vf){a[0], a[2], b[0], b[2]}; }
OG_V_INLINE vf v_iota(void) { return (vf){0, 1, 2, 3}; }

// Bytes, as int8, as the upper half of f16, and as float8 of 4 exponent bits
// over 256: f16 of few bits, of which 1.875 is a NaN.
typedef struct vb {
  uint8_t at[VW];
} vb;
OG_V_INLINE vb v_loadn_bytes(const uint8_t *p, int64_t n) {
  vb x = {{0}};
  for (int64_t i = 0; i < n; ++i) x.at[i] = p[i];
  return x;
}
OG_V_INLINE vb v_load_bytes(const uint8_t *p) { return v_loadn_bytes(p, VW); }
OG_V_INLINE vf v_i8(vb x) {
  return (vf){(int8_t)x.at[0], (int8_t)x.at[1], (int8_t)x.at[2],
              (int8_t)x.at[3]};
}
OG_V_INLINE vf v_e5m2(vb x) {
  vf y = v_zero();
  for (int i = 0; i < VW; ++i)
    y[i] = og_half_to_float((og_half){(uint16_t)(x.at[i] << 8)});
  return y;
}
OG_V_INLINE vf v_e4m3(vb x) {
  vf y = v_zero();
  for (int i = 0; i < VW; ++i) {
    const int rest = x.at[i] & 127, sign = x.at[i] & 128;
    const int bits = rest << 7 | sign << 8 | (rest == 127 ? 0x7c00 : 0);
    y[i] = og_half_to_float((og_half){(uint16_t)bits});
  }
  return y;
}
OG_V_INLINE vf v_loadn_bf16(const uint16_t *p, int64_t n) {
  vf x = v_zero();
  for (int64_t i = 0; i < n; ++i) x[i] = og_bfloat_to_float((og_bfloat){p[i]});
  return x;
}
OG_V_INLINE vf v_load_bf16(const uint16_t *p) { return v_loadn_bf16(p, VW); }
// Of VW pairs of them, the first ones and the second ones.
OG_V_INLINE vf v_load_bf16_even(const uint16_t *p) {
  vf x = v_zero();
  for (int i = 0; i < VW; ++i) x[i] = og_bfloat_to_float((og_bfloat){p[2 * i]});
  return x;
}
OG_V_INLINE vf v_load_bf16_odd(const uint16_t *p) {
  return v_load_bf16_even(p + 1);
}
OG_V_INLINE void v_storen_bf16(uint16_t *p, vf x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = og_bfloat_from_float(x[i]).bits;
}
OG_V_INLINE void v_store_bf16(uint16_t *p, vf x) { v_storen_bf16(p, x, VW); }
OG_V_INLINE vf v_loadn_f16(const uint16_t *p, int64_t n) {
  vf x = v_zero();
  for (int64_t i = 0; i < n; ++i) x[i] = og_half_to_float((og_half){p[i]});
  return x;
}
OG_V_INLINE vf v_load_f16(const uint16_t *p) { return v_loadn_f16(p, VW); }
OG_V_INLINE void v_storen_f16(uint16_t *p, vf x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = og_half_from_float(x[i]).bits;
}
OG_V_INLINE void v_store_f16(uint16_t *p, vf x) { v_storen_f16(p, x, VW); }

OG_V_INLINE void v_sum4(vf a, vf b, vf c, vf d, float *out) {
  out[0] = v_sum(a);
  out[1] = v_sum(b);
  out[2] = v_sum(c);
  out[3] = v_sum(d);
}

OG_V_INLINE void v_max4(vf a, vf b, vf c, vf d, float *out) {
  out[0] = v_hmax(a);
  out[1] = v_hmax(b);
  out[2] = v_hmax(c);
  out[3] = v_hmax(d);
}

OG_V_INLINE void v_transpose(vf *r) {
  for (int i = 0; i < VW; ++i)
    for (int j = 0; j < i; ++j) {
      const float swap = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = swap;
    }
}

// Integers of 32 bits, and u: 4 bytes each.
OG_V_INLINE vi v_zero_i(void) { return (vi){0, 0, 0, 0}; }
OG_V_INLINE vi v_set1_i(int32_t x) { return (vi){x, x, x, x}; }
OG_V_INLINE vi v_load_i(const void *p) {
  vi x;
  memcpy(&x, p, sizeof x);
  return x;
}
OG_V_INLINE vi v_add_i(vi a, vi b) { return a + b; }
OG_V_INLINE vi v_sub_i(vi a, vi b) { return a - b; }
OG_V_INLINE vf v_to_float(vi a) { return __builtin_convertvector(a, vf); }
// Bytes 0 and 2, and 1 and 3, as pairs of 16 bits.
OG_V_INLINE vi v_bytes_even(vi u) { return u & 0xff00ff; }
OG_V_INLINE vi v_bytes_odd(vi u) { return u >> 8 & 0xff00ff; }
// The low and the high halves of bytes.
OG_V_INLINE vi v_nibbles_low(vi u) { return u & 0x0f0f0f0f; }
OG_V_INLINE vi v_nibbles_high(vi u) { return v_nibbles_low(u >> 4); }
// The sum of the two products of signed pairs.
OG_V_INLINE vi v_madd(vi a, vi b) {
  return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
}
