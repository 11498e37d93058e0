// SPDX-License-Identifier: Apache-2.0
// The C forms of the primitives, for compilers: og_scalar_exp_f32(a),
// og_scalar_exp_f64(a), og_scalar_add_i64(a, b)...

#ifndef OG_SCALAR_FORMS_H
#define OG_SCALAR_FORMS_H

#include <math.h>
#include <opgraft/float16.h>
#include <stdint.h>

// --- What forms call ---------------------------------------------------------

// Integers wrap, as PyTorch's do.
static inline int64_t og_wrap_neg(int64_t a) {
  return (int64_t)(0 - (uint64_t)a);
}
static inline int64_t og_wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t og_wrap_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t og_wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

// Rounded once. The product of two floats is exact in double.
static inline float og_fmaf(float a, float b, float c) {
  return (float)((double)a * b + c);
}
static inline double og_fma(double a, double b, double c) {
  return fma(a, b, c);
}

// PyTorch raises where an integer is divided by zero; a loop that cannot stop
// gives 0, and its kernel looks for such a divisor (exec/plain/pointwise.c).
static inline int64_t og_trunc_div_i(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? og_wrap_neg(a) : a / b;
}
static inline int64_t og_floor_div_i(int64_t a, int64_t b) {
  const int64_t q = og_trunc_div_i(a, b);
  return q - (b != 0 && og_wrap_mul(q, b) != a && (a < 0) != (b < 0));
}
static inline int64_t og_fmod_i(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
static inline int64_t og_remainder_i(int64_t a, int64_t b) {
  const int64_t r = og_fmod_i(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t og_pow_i(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  int64_t power = 1;
  for (; b > 0; b >>= 1, a = og_wrap_mul(a, a))
    if (b & 1) power = og_wrap_mul(power, a);
  return power;
}
static inline int64_t og_shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}
static inline int64_t og_shift_right(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;
}

// To the type that has so many bits of precision.
static inline float og_round_tof(float a, float b) {
  if (b == 8) return og_bfloat_to_float(og_bfloat_from_float(a));
  return b == 11 ? og_half_to_float(og_half_from_float(a)) : a;
}
static inline double og_round_to(double a, double b) {
  return b == 8 || b == 11 || b == 24 ? (double)og_round_tof((float)a, (float)b)
                                      : a;
}

// Each once for float and once for double.
#define OG_FLOAT_MATH(T, F, SUFFIX)                  \
  static inline T og_remainder##SUFFIX(T a, T b) {   \
    const T r = F(fmod)(a, b);                       \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r; \
  }                                                  \
  static inline T og_floor_div##SUFFIX(T a, T b) {   \
    if (b == 0) return a / b;                        \
    const T r = F(fmod)(a, b);                       \
    T q = (a - r) / b;                               \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;        \
    if (q == 0) return F(copysign)(0, a / b);        \
    const T whole = F(floor)(q);                     \
    return q - whole > (T)0.5 ? whole + 1 : whole;   \
  }
#define OG_SINGLE(name) name##f
#define OG_DOUBLE(name) name
OG_FLOAT_MATH(float, OG_SINGLE, f)
OG_FLOAT_MATH(double, OG_DOUBLE, )
#undef OG_FLOAT_MATH

// --- The forms ---------------------------------------------------------------

#define OG_OPERANDS_1(T) T a
#define OG_OPERANDS_2(T) T a, T b
#define OG_OPERANDS_3(T) T a, T b, T c
#define OG_DEFINE_FORM(id, arity, T, suffix, form)                    \
  static inline T og_scalar_##id##_##suffix(OG_OPERANDS_##arity(T)) { \
    return (T)(form);                                                 \
  }
#define OG_DEFINE_NO_FORM(id, arity, T, suffix, form)

#define ANY OG_DEFINE_FORM
#define FLOAT OG_DEFINE_FORM
#define INT OG_DEFINE_NO_FORM
#define OG_SCALAR(id, arity, mark, level, classes, vector, ulp_f32, ulp_f64, \
                  ulp_vector, on_float, on_int)                              \
  classes(id, arity, T, f32, on_float)
#define T float
#define F OG_SINGLE
#include "scalar/scalar.def"
#undef OG_SCALAR
#undef T
#undef F
#define OG_SCALAR(id, arity, mark, level, classes, vector, ulp_f32, ulp_f64, \
                  ulp_vector, on_float, on_int)                              \
  classes(id, arity, T, f64, on_float)
#define T double
#define F OG_DOUBLE
#include "scalar/scalar.def"
#undef OG_SCALAR
#undef T
#undef F
#undef FLOAT
#undef INT
#define FLOAT OG_DEFINE_NO_FORM
#define INT OG_DEFINE_FORM
#define OG_SCALAR(id, arity, mark, level, classes, vector, ulp_f32, ulp_f64, \
                  ulp_vector, on_float, on_int)                              \
  classes(id, arity, T, i64, on_int)
#define T int64_t
#include "scalar/scalar.def"
#undef OG_SCALAR
#undef T
#undef ANY
#undef FLOAT
#undef INT
#undef OG_DEFINE_FORM
#undef OG_DEFINE_NO_FORM
#undef OG_SINGLE
#undef OG_DOUBLE

#define OG_SCALAR_CONSTANT(name, value) \
  static const double og_constant_##name = value;
#include "scalar/constants.def"
#undef OG_SCALAR_CONSTANT

#endif  // OG_SCALAR_FORMS_H
