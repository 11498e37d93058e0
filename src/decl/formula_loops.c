// SPDX-License-Identifier: Apache-2.0
// Sums over rows, and rows whose elements stand apart.

#include "decl/formula_loops.h"

#include <string.h>

#include "base/loops.h"
#include "loop/plain.h"

#define ADD_FLOAT(a, b) ((a) + (b))
#define ADD_INT(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))

// Rows k and k + 4, then k and k + 2, then both that are left.
#define PAIRS(T, ADD)                                       \
  T *x = (T *)(void *)from;                                 \
  for (int64_t half = OG_SUM_ROWS / 2; half > 0; half /= 2) \
    for (int64_t k = 0; k < half && k + half < rows; ++k)   \
      for (int64_t e = 0; e < n; ++e)                       \
  x[k * n + e] = ADD(x[k * n + e], x[(k + half) * n + e])
static void pairs_f64(char *from, int64_t rows, int64_t n) {
  PAIRS(double, ADD_FLOAT);
}
static void pairs_i64(char *from, int64_t rows, int64_t n) {
  PAIRS(int64_t, ADD_INT);
}

OG_LOOP_BODY void pairs_f32_body(char *from, int64_t rows, int64_t n) {
  PAIRS(float, ADD_FLOAT);
}
OG_LOOP(pairs_f32, (char *from, int64_t rows, int64_t n), (from, rows, n))

// All 8 at once: each is read once.
OG_LOOP_BODY void eight_body(const float *restrict x, int64_t n,
                             float *restrict y) {
  for (int64_t e = 0; e < n; ++e) {
    const float a = x[e] + x[4 * n + e], b = x[n + e] + x[5 * n + e];
    const float c = x[2 * n + e] + x[6 * n + e];
    const float d = x[3 * n + e] + x[7 * n + e];
    y[e] = (a + c) + (b + d);
  }
}
OG_LOOP(eight, (const float *x, int64_t n, float *y), (x, n, y))
#undef PAIRS

void og_sum_rows(og_class class, char *from, int64_t rows, int64_t n,
                 char *to) {
  if (class == OG_CLASS_F32 && rows == OG_SUM_ROWS) {
    eight((const float *)(void *)from, n, (float *)(void *)to);
    return;
  }
  if (class == OG_CLASS_F32)
    pairs_f32(from, rows, n);
  else if (class == OG_CLASS_F64)
    pairs_f64(from, rows, n);
  else
    pairs_i64(from, rows, n);
  memcpy(to, from, (size_t)n * (class == OG_CLASS_F32 ? 4 : 8));
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
  if (class == OG_CLASS_F64 && dtype.code == OG_CODE_FLOAT && dtype.bits == 32)
    for (int64_t e = 0; e < n; ++e) single[e] = (float)from[e].f64;
  else
    og_loop_plain_store(class, dtype, n, from, to);
}

// --- Copies ------------------------------------------------------------------

#define STEPS(T, from_step, to_step) \
  for (int64_t i = 0; i < n; ++i)    \
  ((T *)to)[i * (to_step)] = ((const T *)from)[i * (from_step)]

// Steps of 2 are those of parts of rows.
void og_elements_copy(int64_t bytes, int64_t n, const void *restrict from,
                      int64_t from_stride, void *restrict to,
                      int64_t to_stride) {
  const bool is_part = from_stride == 2 && to_stride == 1;
  if (bytes == 1)
    STEPS(uint8_t, from_stride, to_stride);
  else if (bytes == 2 && is_part)
    STEPS(uint16_t, 2, 1);
  else if (bytes == 2)
    STEPS(uint16_t, from_stride, to_stride);
  else if (bytes == 4 && is_part)
    STEPS(uint32_t, 2, 1);
  else if (bytes == 4)
    STEPS(uint32_t, from_stride, to_stride);
  else
    STEPS(uint64_t, from_stride, to_stride);
}

void og_positions_store(og_class class, int64_t count, char *to) {
  for (int64_t k = 0; k < count; ++k) {
    const float single = (float)k;
    const double real = (double)k;
    if (class == OG_CLASS_F32)
      memcpy(to + k * 4, &single, sizeof single);
    else
      memcpy(to + k * 8, class == OG_CLASS_F64 ? (void *)&real : &k, 8);
  }
}

void og_zeros_store(const og_tensor *t) {
  const int64_t count = og_numel(t), bytes = (int64_t)og_dtype_bytes(t->dtype);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0, left = n;
    for (int32_t d = t->ndim - 1; d >= 0; left /= t->shape[d--])
      offset += left % t->shape[d] * t->strides[d];
    memset((char *)og_data(t) + offset * bytes, 0, (size_t)bytes);
  }
}
