// SPDX-License-Identifier: Apache-2.0
// The floating types of 8 bits (torch.float8_e4m3fn and torch.float8_e5m2) and
// their conversions. These are functions of their argument alone: any thread
// may call them, and none fails.
// Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022.

#ifndef OPGRAFT_FLOAT8_H
#define OPGRAFT_FLOAT8_H

#include <opgraft/float16.h>

#ifdef __cplusplus
extern "C" {
#endif

// 4 bits of exponent and 3 of fraction, without infinities, up to 448; and the
// upper half of an IEEE binary16.
typedef struct og_e4m3 {
  uint8_t bits;
} og_e4m3;
typedef struct og_e5m2 {
  uint8_t bits;
} og_e5m2;

// Exact; a NaN stays one.
static inline float og_e4m3_to_float(og_e4m3 value) {
  og_float_bits bits;
  og_half half;
  if ((value.bits & 0x7fu) == 0x7fu) {
    bits.u = 0x7fc00000u | (uint32_t)(value.bits & 0x80u) << 24;
    return bits.f;
  }
  // As a half it is 2^8 times smaller: a bias of 7 is read as one of 15.
  half.bits = (uint16_t)((value.bits & 0x80u) << 8 | (value.bits & 0x7fu) << 7);
  return og_half_to_float(half) * 256.0f;
}

// Exact; infinities and NaN stay what they are.
static inline float og_e5m2_to_float(og_e5m2 value) {
  og_half half;
  half.bits = (uint16_t)(value.bits << 8);
  return og_half_to_float(half);
}

// The bits of a size (a float's without its sign) that the type holds once it
// is rounded to the nearest, ties to even: `fraction` bits stand behind the
// exponent, whose least is 1 - bias.
static inline uint8_t og_float8_size_(uint32_t size, int fraction, int bias) {
  const int own = (int)(size >> 23) - 127;
  const int exponent = own > 1 - bias ? own : 1 - bias;
  const uint32_t parts = (size & 0x7fffffu) | (own > -127 ? 0x800000u : 0u);
  int shift = 23 - fraction + exponent - own;
  uint32_t steps, rest, half;
  if (shift > 30) shift = 30;
  steps = parts >> shift;
  rest = parts - (steps << shift);
  half = 1u << (shift - 1);
  steps += rest > half || (rest == half && (steps & 1u) != 0);
  return (uint8_t)((uint32_t)((exponent + bias - 1) << fraction) + steps);
}

// Rounds to nearest, ties to even; what is beyond 448 becomes that, and a NaN
// stays one.
static inline og_e4m3 og_e4m3_from_float(float value) {
  og_float_bits bits;
  og_e4m3 out;
  uint32_t sign;
  bits.f = value;
  sign = bits.u & 0x80000000u;
  bits.u ^= sign;
  if (bits.u > 0x7f800000u)
    out.bits = 0x7fu;
  else
    out.bits = bits.f < 448.0f ? og_float8_size_(bits.u, 3, 7) : 0x7eu;
  out.bits = (uint8_t)(out.bits | (sign >> 24));
  return out;
}

// Rounds to nearest, ties to even; from 61440 on, where 65536 would be nearer
// than 57344, it is infinite, and a NaN stays one.
static inline og_e5m2 og_e5m2_from_float(float value) {
  og_float_bits bits;
  og_e5m2 out;
  uint32_t sign;
  bits.f = value;
  sign = bits.u & 0x80000000u;
  bits.u ^= sign;
  if (bits.u > 0x7f800000u)
    out.bits = 0x7fu;
  else
    out.bits = bits.f < 61440.0f ? og_float8_size_(bits.u, 2, 15) : 0x7cu;
  out.bits = (uint8_t)(out.bits | (sign >> 24));
  return out;
}

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_FLOAT8_H
