// SPDX-License-Identifier: Apache-2.0
// Sums over rows, and rows whose elements stand apart.

#include "decl/formula_loops.h"

#include <string.h>

#include "base/loops.h"
#include "loop/plain.h"

#define ADD_FLOAT(a, b) ((a) + (b))
#define ADD_INT(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))

#define SUM(T, ADD)                                                         \
  const T *x = (const T *)(const void *)from;                               \
  T *y = (T *)(void *)to;                                                   \
  if (rows == OG_SUM_ROWS) {                                                \
    for (int64_t e = 0; e < n; ++e) {                                       \
      const T a = ADD(x[e], x[4 * n + e]), b = ADD(x[n + e], x[5 * n + e]); \
      const T c = ADD(x[2 * n + e], x[6 * n + e]);                          \
      const T d = ADD(x[3 * n + e], x[7 * n + e]);                          \
      y[e] = ADD(ADD(a, c), ADD(b, d));                                     \
    }                                                                       \
    return;                                                                 \
  }                                                                         \
  for (int64_t e = 0; e < n; ++e) {                                         \
    T part[OG_SUM_ROWS];                                                    \
    for (int64_t k = 0; k < rows; ++k) part[k] = x[k * n + e];              \
    for (int64_t half = OG_SUM_ROWS / 2; half > 0; half /= 2)               \
      for (int64_t k = 0; k < half && k + half < rows; ++k)                 \
        part[k] = ADD(part[k], part[k + half]);                             \
    y[e] = part[0];                                                         \
  }

#define ARGUMENTS \
  (const char *restrict from, int64_t rows, int64_t n, char *restrict to)
OG_LOOP_BODY void sum_f32_body ARGUMENTS{
    SUM(float, ADD_FLOAT)} OG_LOOP_BODY void sum_f64_body ARGUMENTS{
    SUM(double, ADD_FLOAT)} OG_LOOP_BODY void sum_i64_body ARGUMENTS{
    SUM(int64_t, ADD_INT)} OG_LOOP(sum_f32, ARGUMENTS, (from, rows, n, to))
    OG_LOOP(sum_f64, ARGUMENTS, (from, rows, n, to))
        OG_LOOP(sum_i64, ARGUMENTS, (from, rows, n, to))
#undef ARGUMENTS
#undef SUM

            void og_sum_rows(og_class class, const char *from, int64_t rows,
                             int64_t n, char *to) {
  if (class == OG_CLASS_F32)
    sum_f32(from, rows, n, to);
  else if (class == OG_CLASS_F64)
    sum_f64(from, rows, n, to);
  else
    sum_i64(from, rows, n, to);
}

void og_sum_totals(og_class class, int64_t n, const char *sums,
                   og_sum_number *to) {
  const float *from = (const float *)(const void *)sums;
  if (class == OG_CLASS_F32)
    for (int64_t e = 0; e < n; ++e) to[e].f64 = (double)from[e];
  else
    memcpy(to, sums, (size_t)n * sizeof *to);
}

OG_LOOP_BODY void add_body(int64_t n, const og_sum_number *restrict from,
                           og_sum_number *restrict to) {
  for (int64_t e = 0; e < n; ++e) to[e].f64 += from[e].f64;
}
OG_LOOP(add, (int64_t n, const og_sum_number *from, og_sum_number *to),
        (n, from, to))

void og_sum_add(og_class class, int64_t n, const og_sum_number *from,
                og_sum_number *to) {
  if (class == OG_CLASS_I64)
    for (int64_t e = 0; e < n; ++e) to[e].i64 = ADD_INT(to[e].i64, from[e].i64);
  else
    add(n, from, to);
}

void og_sum_store(og_class class, og_dtype dtype, int64_t n,
                  const og_sum_number *from, void *to) {
  float *single = to;
  const bool is_single = dtype.code == OG_CODE_FLOAT && dtype.bits == 32;
  if (class == OG_CLASS_F64 && is_single)
    for (int64_t e = 0; e < n; ++e) single[e] = (float)from[e].f64;
  else
    og_loop_plain_store(class, dtype, n, from, to);
}

#define COPY_STEPS(T, from_step, to_step) \
  for (int64_t i = 0; i < n; ++i)         \
  ((T *)to)[i * (to_step)] = ((const T *)from)[i * (from_step)]
#define COPY(T)                                \
  if (from_stride == 2 && to_stride == 1)      \
    COPY_STEPS(T, 2, 1);                       \
  else if (from_stride == 1 && to_stride == 2) \
    COPY_STEPS(T, 1, 2);                       \
  else                                         \
    COPY_STEPS(T, from_stride, to_stride);     \
  break
#define ARGUMENTS                                                            \
  (int64_t bytes, int64_t n, const void *restrict from, int64_t from_stride, \
   void *restrict to, int64_t to_stride)
OG_LOOP_BODY void copy_body ARGUMENTS {
  switch (bytes) {
    case 1:
      COPY(uint8_t);
    case 2:
      COPY(uint16_t);
    case 4:
      COPY(uint32_t);
    default:
      COPY(uint64_t);
  }
}
OG_LOOP(copy, ARGUMENTS, (bytes, n, from, from_stride, to, to_stride))
#undef ARGUMENTS
#undef COPY
#undef COPY_STEPS

void og_elements_copy(int64_t bytes, int64_t n, const void *from,
                      int64_t from_stride, void *to, int64_t to_stride) {
  copy(bytes, n, from, from_stride, to, to_stride);
}
