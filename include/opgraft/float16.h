// SPDX-License-Identifier: Apache-2.0
// The floating types of 16 bits that C has no name for, and their conversions.
// These are functions of their argument alone: any thread may call them, and
// none fails.

#ifndef OPGRAFT_FLOAT16_H
#define OPGRAFT_FLOAT16_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// IEEE binary16, and the upper half of a binary32.
typedef struct og_half {
  uint16_t bits;
} og_half;
typedef struct og_bfloat {
  uint16_t bits;
} og_bfloat;

typedef union og_float_bits {
  float f;
  uint32_t u;
} og_float_bits;

static inline float og_bfloat_to_float(og_bfloat value) {
  og_float_bits bits;
  bits.u = (uint32_t)value.bits << 16;
  return bits.f;
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
static inline og_bfloat og_bfloat_from_float(float value) {
  og_float_bits bits;
  og_bfloat out;
  bits.f = value;
  if ((bits.u & 0x7fffffffu) > 0x7f800000u)
    out.bits = (uint16_t)((bits.u >> 16) | 0x40u);
  else
    out.bits = (uint16_t)((bits.u + 0x7fffu + ((bits.u >> 16) & 1u)) >> 16);
  return out;
}

static inline float og_half_to_float(og_half value) {
  og_float_bits bits;
  const uint32_t sign = (uint32_t)(value.bits & 0x8000u) << 16;
  const uint32_t rest = (uint32_t)(value.bits & 0x7fffu) << 13;
  const uint32_t exponent = rest & 0x0f800000u;
  bits.u = rest + 0x38000000u;  // the bias from 15 to 127
  if (exponent == 0x0f800000u) {
    bits.u += 0x38000000u;  // infinity and NaN
  } else if (exponent == 0) {
    bits.u += 0x00800000u;  // zero and denormals, by a float subtraction
    bits.f -= 6.103515625e-05f;
  }
  bits.u |= sign;
  return bits.f;
}

// Rounds to nearest, ties to even; overflow gives infinity.
static inline og_half og_half_from_float(float value) {
  og_float_bits bits, magic;
  og_half out;
  uint32_t sign;
  bits.f = value;
  sign = bits.u & 0x80000000u;
  bits.u ^= sign;
  if (bits.u >= 0x47800000u) {  // >= 65536, infinity, NaN
    out.bits = bits.u > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (bits.u < 0x38800000u) {  // denormal: let the adder round
    magic.u = 0x3f000000u;
    bits.f += magic.f;
    out.bits = (uint16_t)(bits.u - magic.u);
  } else {
    bits.u += 0xc8000fffu + ((bits.u >> 13) & 1u);
    out.bits = (uint16_t)(bits.u >> 13);
  }
  out.bits = (uint16_t)(out.bits | (sign >> 16));
  return out;
}

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_FLOAT16_H
