// SPDX-License-Identifier: Apache-2.0
// Elements of every type, as doubles and as integers.

#include "scalar/element.h"

#include <string.h>

#include "base/float_value.h"

og_class og_dtype_class(og_dtype dtype) {
  if (dtype.lanes != 1) return OG_CLASS_NONE;
  switch (dtype.code) {
    case OG_CODE_FLOAT:
      if (dtype.bits == 64) return OG_CLASS_F64;
      return dtype.bits == 32 || dtype.bits == 16 ? OG_CLASS_F32
                                                  : OG_CLASS_NONE;
    case OG_CODE_BFLOAT:
      return dtype.bits == 16 ? OG_CLASS_F32 : OG_CLASS_NONE;
    case OG_CODE_INT:
    case OG_CODE_UINT:
    case OG_CODE_BOOL:
      return dtype.bits == 8 || dtype.bits == 16 || dtype.bits == 32 ||
                     (dtype.bits == 64 && dtype.code != OG_CODE_UINT)
                 ? OG_CLASS_I64
                 : OG_CLASS_NONE;  // u64 has numbers that int64 lacks
    default:
      return OG_CLASS_NONE;
  }
}

int64_t og_double_to_int(double number) {
  if (!(number >= -9223372036854775808.0)) return INT64_MIN;
  if (number >= 9223372036854775808.0) return INT64_MAX;
  return (int64_t)number;
}

int64_t og_element_int(og_dtype dtype, const void *at) {
  uint64_t bits = 0;
  if (og_dtype_class(dtype) != OG_CLASS_I64)
    return og_double_to_int(og_element_double(dtype, at));
  memcpy(&bits, at, dtype.bits / 8u);
  if (dtype.code == OG_CODE_BOOL) return bits != 0;
  if (dtype.code == OG_CODE_INT && dtype.bits < 64 &&
      (bits >> (dtype.bits - 1) & 1) != 0)
    bits |= ~(uint64_t)0 << dtype.bits;
  int64_t number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

double og_element_double(og_dtype dtype, const void *at) {
  switch (og_dtype_class(dtype)) {
    case OG_CLASS_I64:
      return (double)og_element_int(dtype, at);
    case OG_CLASS_F32:
    case OG_CLASS_F64:
      return og_float_load(dtype, at);
    default:
      return 0;
  }
}

void og_element_set_int(og_dtype dtype, void *at, int64_t number) {
  if (og_dtype_class(dtype) != OG_CLASS_I64) {
    og_element_set_double(dtype, at, (double)number);
    return;
  }
  if (dtype.code == OG_CODE_BOOL) number = number != 0;
  memcpy(at, &number, dtype.bits / 8u);  // little-endian, as all hosts here
}

void og_element_set_double(og_dtype dtype, void *at, double number) {
  switch (og_dtype_class(dtype)) {
    case OG_CLASS_I64:
      og_element_set_int(
          dtype, at,
          dtype.code == OG_CODE_BOOL ? number != 0 : og_double_to_int(number));
      return;
    case OG_CLASS_F32:
    case OG_CLASS_F64:
      og_float_store(dtype, at, number);
      return;
    default:
      return;
  }
}

og_dtype og_dtype_promote(og_dtype a, og_dtype b) {
  if (a.code == b.code) return a.bits >= b.bits ? a : b;
  if (og_dtype_is_float(a) && og_dtype_is_float(b)) {
    if (a.bits == 16 && b.bits == 16) return (og_dtype){OG_CODE_FLOAT, 32, 1};
    return a.bits >= b.bits ? a : b;
  }
  if (og_dtype_is_float(a)) return a;
  if (og_dtype_is_float(b)) return b;
  if (a.code == OG_CODE_BOOL) return b;
  if (b.code == OG_CODE_BOOL) return a;
  // One signed, one unsigned: the signed type that holds both.
  const og_dtype sign = a.code == OG_CODE_INT ? a : b;
  const og_dtype plain = a.code == OG_CODE_INT ? b : a;
  if (sign.bits > plain.bits) return sign;
  const int bits = plain.bits < 64 ? plain.bits * 2 : 64;
  return (og_dtype){OG_CODE_INT, (uint8_t)bits, 1};
}
