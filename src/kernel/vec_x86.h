// SPDX-License-Identifier: Apache-2.0
// What AVX2 and AVX-512 write alike. Included by their headers, which say what
// V(f) is, the intrinsic f of whole vectors, H(f) that of vectors of half the
// bytes, and V_BITS(f) and H_BITS(f) where its name ends in the number of bits.

OG_V_INLINE vf v_zero(void) { return V(setzero_ps)(); }
OG_V_INLINE vf v_set1(float x) { return V(set1_ps)(x); }
OG_V_INLINE vf v_load(const float *p) { return V(loadu_ps)(p); }
OG_V_INLINE void v_store(float *p, vf x) { V(storeu_ps)(p, x); }
OG_V_INLINE vf v_add(vf a, vf b) { return V(add_ps)(a, b); }
OG_V_INLINE vf v_sub(vf a, vf b) { return V(sub_ps)(a, b); }
OG_V_INLINE vf v_mul(vf a, vf b) { return V(mul_ps)(a, b); }
OG_V_INLINE vf v_div(vf a, vf b) { return V(div_ps)(a, b); }
OG_V_INLINE vf v_max(vf a, vf b) { return V(max_ps)(a, b); }
OG_V_INLINE vf v_min(vf a, vf b) { return V(min_ps)(a, b); }
OG_V_INLINE vf v_fma(vf a, vf b, vf c) { return V(fmadd_ps)(a, b, c); }
OG_V_INLINE vf v_neg(vf a) { return V(xor_ps)(a, V(set1_ps)(-0.0f)); }
OG_V_INLINE vf v_sqrt(vf a) { return V(sqrt_ps)(a); }

// Elements of 16 bits.
OG_V_INLINE vf v_bf16_widen(vh x) {
  return v_of_bits(V(slli_epi32)(V(cvtepu16_epi32)(x), 16));
}
OG_V_INLINE vh v_load16(const uint16_t *p) {
  return H_BITS(loadu)((const void *)p);
}
OG_V_INLINE void v_store16(uint16_t *p, vh x) { H_BITS(storeu)((void *)p, x); }
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
  return v_of_bits(V(slli_epi32)(V_BITS(loadu)((const void *)p), 16));
}
OG_V_INLINE vf v_load_bf16_odd(const uint16_t *p) {
  return v_of_bits(V_BITS(and)(V_BITS(loadu)((const void *)p),
                               V(set1_epi32)((int)0xffff0000u)));
}
OG_V_INLINE vf v_load_f16(const uint16_t *p) {
  return V(cvtph_ps)(v_load16(p));
}
OG_V_INLINE vf v_loadn_f16(const uint16_t *p, int64_t n) {
  return V(cvtph_ps)(v_loadn16(p, n));
}
OG_V_INLINE void v_store_f16(uint16_t *p, vf x) {
  v_store16(p, V(cvtps_ph)(x, 0));
}
OG_V_INLINE void v_storen_f16(uint16_t *p, vf x, int64_t n) {
  v_storen16(p, V(cvtps_ph)(x, 0), n);
}

// Bytes, as int8, as the upper half of f16, and as float8 of 4 exponent bits
// over 256: f16 of few bits, of which 1.875 is a NaN.
OG_V_INLINE vf v_i8(vb x) { return V(cvtepi32_ps)(V(cvtepi8_epi32)(x)); }
OG_V_INLINE vf v_e5m2(vb x) {
  return V(cvtph_ps)(H(slli_epi16)(H(cvtepu8_epi16)(x), 8));
}
// Bit 14 is the sign's copy: the sum's differs from it where all bits below are
// ones, and so their xor is that of a NaN.
OG_V_INLINE vf v_e4m3(vb x) {
  const vh half = H(slli_epi16)(H(cvtepi8_epi16)(x), 7);
  const vh next = H(add_epi16)(half, H(set1_epi16)(128));
  const vh sign = H_BITS(and)(next, H(set1_epi16)(0x4000));
  return V(cvtph_ps)(H_BITS(xor)(half, sign));
}

// Integers of 32 bits, and u: 4 bytes each.
OG_V_INLINE vi v_zero_i(void) { return V_BITS(setzero)(); }
OG_V_INLINE vi v_set1_i(int32_t x) { return V(set1_epi32)(x); }
OG_V_INLINE vi v_load_i(const void *p) { return V_BITS(loadu)(p); }
OG_V_INLINE vi v_add_i(vi a, vi b) { return V(add_epi32)(a, b); }
OG_V_INLINE vi v_sub_i(vi a, vi b) { return V(sub_epi32)(a, b); }
OG_V_INLINE vi v_times256(vi a) { return V(slli_epi32)(a, 8); }
OG_V_INLINE vf v_to_float(vi a) { return V(cvtepi32_ps)(a); }
// Bytes 0 and 2, and 1 and 3, as pairs of 16 bits.
OG_V_INLINE vi v_bytes_even(vi u) {
  return V_BITS(and)(u, V(set1_epi32)(0xff00ff));
}
OG_V_INLINE vi v_bytes_odd(vi u) { return V(srli_epi16)(u, 8); }
// The low and the high halves of bytes.
OG_V_INLINE vi v_nibbles_low(vi u) { return V_BITS(and)(u, V(set1_epi8)(15)); }
OG_V_INLINE vi v_nibbles_high(vi u) {
  return v_nibbles_low(V(srli_epi16)(u, 4));
}
// The sum of the two products of signed pairs.
OG_V_INLINE vi v_madd(vi a, vi b) { return V(madd_epi16)(a, b); }
// c + the sum of the four products of unsigned u, to 15, and signed b.
OG_V_INLINE vi v_low_dots(vi c, vi u, vi b) {
  const vi pairs = V(maddubs_epi16)(u, b);
  return V(add_epi32)(c, V(madd_epi16)(pairs, V(set1_epi16)(1)));
}

#undef V
#undef H
#undef V_BITS
#undef H_BITS
