// SPDX-License-Identifier: Apache-2.0
// What the expressions of the pointwise rows of ops.def call.

#ifndef OG_EXEC_POINTWISE_MATH_H
#define OG_EXEC_POINTWISE_MATH_H

#include <math.h>
#include <stdint.h>

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

// PyTorch raises where an integer is divided by zero; a kernel that cannot
// stop gives 0.
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

// Each once for float and once for double.
#define OG_FLOAT_MATH(T, F, SUFFIX)                                      \
  static inline T og_remainder##SUFFIX(T a, T b) {                       \
    const T r = F(fmod)(a, b);                                           \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                     \
  }                                                                      \
  static inline T og_floor_div##SUFFIX(T a, T b) {                       \
    if (b == 0) return a / b;                                            \
    const T r = F(fmod)(a, b);                                           \
    T q = (a - r) / b;                                                   \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;                            \
    if (q == 0) return F(copysign)(0, a / b);                            \
    const T whole = F(floor)(q);                                         \
    return q - whole > (T)0.5 ? whole + 1 : whole;                       \
  }                                                                      \
  static inline T og_lerp##SUFFIX(T a, T b, T weight) {                  \
    return F(fabs)(weight) < (T)0.5 ? a + weight * (b - a)               \
                                    : b - (b - a) * (1 - weight);        \
  }                                                                      \
  static inline T og_silu_backward##SUFFIX(T grad, T x) {                \
    const T s = 1 / (1 + F(exp)(-x));                                    \
    return grad * s * (1 + x * (1 - s));                                 \
  }                                                                      \
  static inline T og_gelu_backward##SUFFIX(T grad, T x) {                \
    const T cdf = (T)0.5 * (1 + F(erf)(x * (T)0.70710678118654752));     \
    const T pdf = F(exp)((T)-0.5 * x * x) * (T)0.39894228040143268;      \
    return grad * (cdf + x * pdf);                                       \
  }                                                                      \
  static inline T og_gelu_tanh_backward##SUFFIX(T grad, T x) {           \
    const T beta = (T)0.79788456080286536, kappa = (T)0.044715;          \
    const T t = F(tanh)(beta * (x + kappa * x * x * x));                 \
    const T inner = beta * (1 + 3 * kappa * x * x);                      \
    return grad * ((T)0.5 * (1 + t) + (T)0.5 * x * (1 - t * t) * inner); \
  }
#define OG_SINGLE(name) name##f
#define OG_DOUBLE(name) name
OG_FLOAT_MATH(float, OG_SINGLE, f)
OG_FLOAT_MATH(double, OG_DOUBLE, )
#undef OG_FLOAT_MATH

#endif  // OG_EXEC_POINTWISE_MATH_H
