// SPDX-License-Identifier: Apache-2.0
// Elements of any type as doubles, and comparison of results.

#include "check/sample/value.h"

#include <math.h>
#include <string.h>

#include "base/float_value.h"
#include "base/text.h"

static og_dtype part_type(og_dtype type) {
  return (og_dtype){OG_CODE_FLOAT, (uint8_t)(type.bits / 2), 1};
}

static int64_t int_get(og_dtype type, const void *at) {
  uint64_t raw = 0;
  const size_t bytes = og_dtype_bytes(type);
  memcpy(&raw, at, bytes < 8 ? bytes : 8);
  if (type.code != OG_CODE_INT || bytes >= 8) return (int64_t)raw;
  const int shift = 64 - (int)type.bits;
  return (int64_t)(raw << shift) >> shift;
}

double og_value_get(og_dtype type, const void *at, int32_t part) {
  if (og_is_real(type)) return og_float_load(type, at);
  if (og_is_complex(type))
    return og_float_load(part_type(type),
                         (const char *)at + part * (type.bits / 16));
  return (double)int_get(type, at);
}

void og_value_set(og_dtype type, void *at, int32_t part, double value) {
  if (og_is_real(type)) {
    og_float_store(type, at, value);
    return;
  }
  if (og_is_complex(type)) {
    og_float_store(part_type(type), (char *)at + part * (type.bits / 16),
                   value);
    return;
  }
  if (type.code == OG_CODE_BOOL) value = value != 0;
  const int bits = type.bits < 64 ? type.bits : 63;
  const bool is_signed = type.code == OG_CODE_INT && type.bits < 64;
  const double high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
  const double low = is_signed                  ? -high - 1
                     : type.code == OG_CODE_INT ? -ldexp(1, 62)
                                                : 0;
  if (!(value >= low)) value = low;
  if (value > high) value = high;
  const int64_t whole =
      value >= 0x1p62 ? INT64_MAX / 2 : (int64_t)nearbyint(value);
  memcpy(at, &whole, og_dtype_bytes(type));
}

double og_value_slack(og_dtype type) {
  if (type.code == OG_CODE_F8E5M2) return 0.5;
  if (type.code == OG_CODE_F8E4M3) return 0.25;
  if (type.code == OG_CODE_BFLOAT) return 0.06;
  const int bits = og_is_complex(type) ? type.bits / 2 : type.bits;
  if (type.code != OG_CODE_FLOAT && !og_is_complex(type)) return 0;
  return bits == 16 ? 0.012 : bits == 32 ? 1e-4 : 1e-10;
}

double og_value_coarse(double value) {
  if (value == 0 || !isfinite(value)) return value;
  int exponent;
  const double fraction = frexp(value, &exponent);
  if (exponent < -8) return 0;
  return ldexp(nearbyint(fraction * 256) / 256, exponent);
}

og_difference og_compare_bits(og_dtype type, const void *a, const void *b,
                              int64_t count) {
  const size_t bytes = og_dtype_bytes(type);
  og_difference d = {0, -1, 0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const char *x = (const char *)a + (size_t)i * bytes;
    const char *y = (const char *)b + (size_t)i * bytes;
    if (memcmp(x, y, bytes) == 0) continue;
    bool differs = false;
    for (int32_t p = 0; p < og_parts(type); ++p) {
      const double u = og_value_get(type, x, p);
      const double v = og_value_get(type, y, p);
      if (og_has_fractions(type) && ((isnan(u) && isnan(v)) || u == v))
        continue;
      differs = true;
      if (d.first < 0) d.a = u, d.b = v;
    }
    if (!differs) continue;
    if (d.count++ == 0) d.first = i;
  }
  return d;
}

static double mean_square_root(og_dtype type, const void *data, int64_t count) {
  double sum = 0;
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i)
    for (int32_t p = 0; p < og_parts(type); ++p) {
      const char *at = (const char *)data + (size_t)i * og_dtype_bytes(type);
      const double v = og_value_get(type, at, p);
      if (!isfinite(v)) continue;
      sum += v * v;
      ++used;
    }
  return used > 0 ? sqrt(sum / (double)used) : 0;
}

// Inputs are of size 1, so that a result much smaller than 0.1 is one that
// cancelled, and carries the rounding of its terms.
enum { FLOOR_PARTS = 10 };

static bool is_near(double a, double b, double slack, double scale) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (a == b) return true;
  if (isinf(a) || isinf(b)) return false;
  const double size = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
  return fabs(a - b) <= slack * (size + scale + 1.0 / FLOOR_PARTS);
}

og_difference og_compare_near(og_dtype type_a, const void *a, og_dtype type_b,
                              const void *b, int64_t count, double slack) {
  og_difference d = {0, -1, 0, 0};
  const bool is_exact = !og_has_fractions(type_a);
  const double scale = is_exact ? 0 : mean_square_root(type_a, a, count);
  for (int64_t i = 0; i < count; ++i) {
    bool differs = false;
    for (int32_t p = 0; p < og_parts(type_a); ++p) {
      const double x = og_value_get(
          type_a, (const char *)a + (size_t)i * og_dtype_bytes(type_a), p);
      const double y = og_value_get(
          type_b, (const char *)b + (size_t)i * og_dtype_bytes(type_b), p);
      if (is_exact ? x == y : is_near(x, y, slack, scale)) continue;
      differs = true;
      if (d.first < 0) d.a = x, d.b = y;
    }
    if (!differs) continue;
    if (d.count++ == 0) d.first = i;
  }
  return d;
}
