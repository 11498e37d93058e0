// SPDX-License-Identifier: Apache-2.0
// Elements of any type as doubles, and comparison of results.

#ifndef OG_CHECK_SAMPLE_VALUE_H
#define OG_CHECK_SAMPLE_VALUE_H

#include <opgraft/op.h>
#include <stdbool.h>

static inline bool og_is_floating(og_dtype t) {
  return t.code == OG_CODE_FLOAT || t.code == OG_CODE_BFLOAT;
}
static inline bool og_is_complex(og_dtype t) {
  return t.code == OG_CODE_COMPLEX;
}
// Those of 8 bits, which no other type's values are compared with.
static inline bool og_is_float8(og_dtype t) {
  return t.code == OG_CODE_F8E4M3 || t.code == OG_CODE_F8E5M2;
}
// What og_float_load loads.
static inline bool og_is_real(og_dtype t) {
  return og_is_floating(t) || og_is_float8(t);
}
// Neither integers nor bool.
static inline bool og_has_fractions(og_dtype t) {
  return og_is_real(t) || og_is_complex(t);
}
static inline bool og_is_integral(og_dtype t) {
  return t.code == OG_CODE_INT || t.code == OG_CODE_UINT;
}

// Real components of one element: 2 for complex types, else 1.
static inline int32_t og_parts(og_dtype t) { return og_is_complex(t) ? 2 : 1; }

// Part `part` of the element at `at`, which need not be aligned.
double og_value_get(og_dtype type, const void *at, int32_t part);
// Rounds to the type's nearest value; integers saturate.
void og_value_set(og_dtype type, void *at, int32_t part, double value);

// What two computations of one result may differ by, as a share of its size,
// when they only order their sums differently.
double og_value_slack(og_dtype type);

// Rounds to what f16 and bf16 can both hold.
double og_value_coarse(double value);

typedef struct og_difference {
  int64_t count;  // elements that differ
  int64_t first;  // index of the first one
  double a;
  double b;
} og_difference;

// Compares `count` elements bit by bit, but for NaNs, which are all equal.
og_difference og_compare_bits(og_dtype type, const void *a, const void *b,
                              int64_t count);
// Compares numbers of two types: they differ where |a - b| is more than
// `slack` times their size and the result's root mean square. Integers must be
// equal, in this and in every other respect.
og_difference og_compare_near(og_dtype type_a, const void *a, og_dtype type_b,
                              const void *b, int64_t count, double slack);

#endif  // OG_CHECK_SAMPLE_VALUE_H
