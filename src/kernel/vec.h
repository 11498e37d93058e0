// SPDX-License-Identifier: Apache-2.0
// One vector of floats per instruction set, under one set of names.
//
// A file that cmake/isa.cmake makes sets OG_ISA_VEC to the set's header, which
// says OG_TARGET, what a vector is, and what the set has (OG_V_HAS_FMA,
// OG_V_HAS_MASKS, OG_V_HAS_BF16_DOTS: 0 or 1; OG_V_HAS_TILES, which only a set
// with AMX says), and includes the kernels that are
// written in these names. Every function here is inlined into a function with
// the same target, so one library holds all levels.

#ifndef OG_KERNEL_VEC_H
#define OG_KERNEL_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"

#include OG_ISA_VEC
#ifndef OG_V_HAS_TILES
#define OG_V_HAS_TILES 0
#endif

#define OG_INLINE static inline __attribute__((always_inline)) OG_TARGET

// --- Elements of any type, as floats ----------------------------------------

// Of a cache: OG_I8, OG_E4M3, which comes over 256, or OG_E5M2.
OG_INLINE vf v_of_bytes(vb x, int element) {
  if (element == OG_I8) return v_i8(x);
  return element == OG_E5M2 ? v_e5m2(x) : v_e4m3(x);
}

OG_INLINE vf v_ld(const void *p, int64_t i, int element) {
  if (element == OG_BF16) return v_load_bf16((const uint16_t *)p + i);
  if (element == OG_F16) return v_load_f16((const uint16_t *)p + i);
  if (element >= OG_I8)
    return v_of_bytes(v_load_bytes((const uint8_t *)p + i), element);
  return v_load((const float *)p + i);
}

// The first n < VW elements, zeros after them.
OG_INLINE vf v_ldn(const void *p, int64_t i, int64_t n, int element) {
  if (element == OG_BF16) return v_loadn_bf16((const uint16_t *)p + i, n);
  if (element == OG_F16) return v_loadn_f16((const uint16_t *)p + i, n);
  if (element >= OG_I8)
    return v_of_bytes(v_loadn_bytes((const uint8_t *)p + i, n), element);
  return v_loadn((const float *)p + i, n);
}

OG_INLINE void v_st(void *p, int64_t i, vf x, int element) {
  if (element == OG_BF16)
    v_store_bf16((uint16_t *)p + i, x);
  else if (element == OG_F16)
    v_store_f16((uint16_t *)p + i, x);
  else
    v_store((float *)p + i, x);
}

OG_INLINE void v_stn(void *p, int64_t i, vf x, int64_t n, int element) {
  if (element == OG_BF16)
    v_storen_bf16((uint16_t *)p + i, x, n);
  else if (element == OG_F16)
    v_storen_f16((uint16_t *)p + i, x, n);
  else
    v_storen((float *)p + i, x, n);
}

// --- Functions ---------------------------------------------------------------

// src/scalar/scalar.def names those that are vector forms of its primitives,
// and states their errors.

// 2^x, relative error 3e-7; 0 for -inf. Without AVX-512, x < 128, and 0 below
// -126.
OG_INLINE vf v_exp2(vf x) {
  vf f;
  const vf whole = v_exp2_split(x, &f);
  vf s = v_set1(1.8775767e-3f);
  s = v_fma(s, f, v_set1(8.9893397e-3f));
  s = v_fma(s, f, v_set1(5.5826318e-2f));
  s = v_fma(s, f, v_set1(2.4015361e-1f));
  s = v_fma(s, f, v_set1(6.9315308e-1f));
  s = v_fma(s, f, v_set1(1));  // exact at 0: one key has weight 1
  return v_exp2_join(s, whole);
}

// The same with relative error 8e-5, for results of 16 bits.
OG_INLINE vf v_exp2_rough(vf x) {
  vf f;
  const vf whole = v_exp2_split(x, &f);
  vf s = v_set1(7.802455e-2f);
  s = v_fma(s, f, v_set1(2.2606718e-1f));
  s = v_fma(s, f, v_set1(6.9583349e-1f));
  s = v_fma(s, f, v_set1(9.9992523e-1f));
  return v_exp2_join(s, whole);
}

// e^r - 1 for |r| <= ln 2 / 2, by a fit of (e^r - 1 - r) / r^2 whose relative
// error in e^r is 4e-9.
OG_INLINE vf v_expm1_near(vf r) {
  vf s = v_set1(1.38145278e-3f);
  s = v_fma(s, r, v_set1(8.36874451e-3f));
  s = v_fma(s, r, v_set1(4.16683927e-2f));
  s = v_fma(s, r, v_set1(1.66665211e-1f));
  s = v_fma(s, r, v_set1(4.9999994e-1f));
  return v_fma(v_mul(r, r), s, r);
}

// How often ln 2 goes into x, and what is left, by a two-part ln 2.
OG_INLINE vf v_exp_split(vf x, vf *out_rest) {
  const vf n = v_floor(v_fma(x, v_set1(1.44269504f), v_set1(0.5f)));
  const vf r = v_fma(n, v_set1(-0.693145752f), x);
  *out_rest = v_fma(n, v_set1(-1.42860677e-6f), r);
  return n;
}

OG_INLINE vf v_exp(vf x) {
  vf r;
  x = v_min(v_set1(89.0f), v_max(v_set1(-104.0f), x));
  const vf n = v_exp_split(x, &r);
  // 1 last: it rounds once.
  return v_scale2(v_add(v_expm1_near(r), v_set1(1)), n);
}

// x * sigmoid(z): x / (1 + e^-z), where neither the power nor the sigmoid is
// rounded. 0 below -88.37, where the power would soon be infinite.
OG_INLINE vf v_times_sigmoid(vf x, vf z) {
  vf r;
  const vf most = v_set1(88.37f);
  const vf y = v_min(v_set1(87.0f), v_max(v_neg(most), z));
  const vf n = v_exp_split(v_neg(y), &r);
  const vf power = v_exp2_join(v_set1(1), n), one = v_set1(1);
  // What is lost of a small power or a small 1 is added to what is small.
  const vf high = v_add(power, one);
  const vf lost = v_add(v_sub(power, high), one);
  const vf sum = v_add(high, v_fma(power, v_expm1_near(r), lost));
  return v_div(x, v_select_lt(z, v_neg(most), v_set1(INFINITY), sum));
}

// x * sigmoid(z), where x is NaN if z is, for gates: with AVX-512 within 4
// units in the last place for |z| <= 40, else 6, in two thirds of the time. z
// is cut into 32nds of ln 2, which stand in the last bits of a large number and
// choose a power from a table, and a rest of at most 0.011.
OG_INLINE vf v_gated(vf x, vf z) {
#if OG_V_HAS_MASKS
  const vf large = v_set1(0x1.8p18f), y = v_within(z, 104);
  const vf bits = v_fma(y, v_set1(-1.44269504f), large);
  const vf n = v_sub(bits, large);
  const vf r = v_fma(n, v_set1(0.693147182f), y);  // what is left of z
  const vf part = v_exp2_32nds(bits);
  const vf less = v_fma(r, v_set1(0.50000407f), v_set1(-1.00001466f));
  const vf power = v_fma(part, v_mul(less, r), part);
  return v_div(x, v_add(v_exp2_join(power, n), v_set1(1)));
#else
  return v_times_sigmoid(x, z);
#endif
}

OG_INLINE vf v_sigmoid(vf x) { return v_times_sigmoid(v_set1(1), x); }

// Near zero the odd polynomial of Cephes, else 1 - 2 / (e^2|x| + 1) with the
// sign of x.
OG_INLINE vf v_tanh(vf x) {
  const vf x2 = v_mul(x, x), size = v_max(x, v_neg(x));
  vf s = v_set1(-5.70498872745e-3f);
  s = v_fma(s, x2, v_set1(2.06390887954e-2f));
  s = v_fma(s, x2, v_set1(-5.37397155531e-2f));
  s = v_fma(s, x2, v_set1(1.33314422036e-1f));
  s = v_fma(s, x2, v_set1(-3.33332819422e-1f));
  const vf near = v_fma(v_mul(s, x2), x, x);
  const vf rest = v_times_sigmoid(v_set1(2), v_mul(size, v_set1(-2)));
  const vf far = v_sub(v_set1(1), rest);
  return v_select_lt(x2, v_set1(0.390625f), near,
                     v_select_lt(x, v_zero(), v_neg(far), far));
}

// x^2 as a rounded square and what the rounding left, for |x| < 16.
OG_INLINE vf v_square_split(vf x, vf *out_left) {
#if OG_V_HAS_FMA
  const vf square = v_mul(x, x);
  *out_left = v_fma(x, x, v_neg(square));
  return square;
#else
  const vf high = v_mul(v_round(v_mul(x, v_set1(128))), v_set1(0x1p-7f));
  *out_left = v_mul(v_sub(x, high), v_add(x, high));
  return v_mul(high, high);
#endif
}

// erfc(a) = e^-a^2 g(t) for a in [0, 10.5], given a^2 as a rounded square and
// what the rounding left: a fit of g(t) / t in t = 1 / (1 + 0.6 a), whose
// relative error is 4e-8.
OG_INLINE vf v_erfc_of_square(vf a, vf square, vf left) {
  vf r;
  const vf t = v_div(v_set1(1), v_fma(a, v_set1(0.6f), v_set1(1)));
  const vf u = v_sub(t, v_set1(0.5f));
  vf s = v_set1(0.0653167143f);
  s = v_fma(s, u, v_set1(-0.0220278371f));
  s = v_fma(s, u, v_set1(-0.118074723f));
  s = v_fma(s, u, v_set1(0.0966396853f));
  s = v_fma(s, u, v_set1(0.111544609f));
  s = v_fma(s, u, v_set1(-0.186096981f));
  s = v_fma(s, u, v_set1(-0.141946211f));
  s = v_fma(s, u, v_set1(0.347592831f));
  s = v_fma(s, u, v_set1(0.691572785f));
  s = v_fma(s, u, v_set1(0.592574954f));
  const vf n = v_exp_split(v_neg(square), &r);
  const vf g = v_mul(s, t);
  return v_scale2(v_fma(g, v_expm1_near(v_sub(r, left)), g), n);
}

OG_INLINE vf v_erfc(vf x) {
  vf left;
  const vf a = v_min(v_set1(10.5f), v_max(x, v_neg(x)));
  const vf square = v_square_split(a, &left);
  const vf tail = v_erfc_of_square(a, square, left);
  return v_select_lt(v_zero(), x, tail, v_sub(v_set1(2), tail));
}

// The normal distribution function: erfc(-x / sqrt(2)) / 2. The square is that
// of x, since the rounded x / sqrt(2) would count x^2 times.
OG_INLINE vf v_normal_cdf(vf x) {
  const vf half = v_set1(0.5f);
  vf left;
  const vf a = v_min(v_set1(14.8f), v_max(x, v_neg(x)));
  const vf square = v_mul(half, v_square_split(a, &left));
  const vf tail = v_mul(half, v_erfc_of_square(v_mul(a, v_set1(0.70710678f)),
                                               square, v_mul(half, left)));
  return v_select_lt(x, v_zero(), tail, v_sub(v_set1(1), tail));
}

// Sine and cosine of `turns` whole turns, |turns| <= 0.5.
OG_INLINE void v_sincos_turns(vf turns, vf *out_sin, vf *out_cos) {
  // Reduced to an eighth of a turn about the nearest quarter.
  const vf quarter = v_floor(v_fma(turns, v_set1(4), v_set1(0.5f)));
  const vf r =
      v_mul(v_fma(quarter, v_set1(-0.25f), turns), v_set1(6.28318531f));
  const vf r2 = v_mul(r, r);
  vf s = v_set1(-1.9515295891e-4f);
  s = v_fma(s, r2, v_set1(8.3321608736e-3f));
  s = v_fma(s, r2, v_set1(-1.6666654611e-1f));
  s = v_fma(v_mul(s, r2), r, r);
  vf c = v_set1(2.443315711809948e-5f);
  c = v_fma(c, r2, v_set1(-1.388731625493765e-3f));
  c = v_fma(c, r2, v_set1(4.166664568298827e-2f));
  c = v_fma(v_mul(c, r2), r2, v_fma(r2, v_set1(-0.5f), v_set1(1)));
  // quarter is -2, -1, 0, 1 or 2.
  const vf size = v_max(quarter, v_neg(quarter));
  const vf odd_s = v_mul(quarter, c);
  const vf odd_c = v_neg(v_mul(quarter, s));
  const vf is_odd = v_mul(size, v_sub(v_set1(2), size));
  const vf even_sign = v_sub(v_set1(1), size);
  *out_sin = v_select_lt(v_set1(0.5f), is_odd, odd_s, v_mul(even_sign, s));
  *out_cos = v_select_lt(v_set1(0.5f), is_odd, odd_c, v_mul(even_sign, c));
}

#endif  // OG_KERNEL_VEC_H
