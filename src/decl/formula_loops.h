// SPDX-License-Identifier: Apache-2.0
// Loops beside a formula's program.
//
// Sums over rows: 8 rows are added in pairs, 8 such sums too, and what they
// make, in f64, in order.

#ifndef OG_DECL_FORMULA_LOOPS_H
#define OG_DECL_FORMULA_LOOPS_H

#include <opgraft/op.h>

#include "scalar/scalar.h"

enum { OG_SUM_ROWS = 8 };  // that are added at a time, at most

typedef struct og_sum_number {
  union {
    float f32;
    double f64;
    int64_t i64;
  };
} og_sum_number;

// The sum of 1 to 8 rows of n elements: k and k + 4, then k and k + 2, then
// both that are left. `to` lies elsewhere; the rows are changed.
void og_sum_rows(og_class class, char *from, int64_t rows, int64_t n, char *to);
// What was computed in a class, in f64, or in int64.
void og_sum_totals(og_class class, int64_t n, const char *sums,
                   og_sum_number *to);
// to += from, in int64 or f64.
void og_sum_add(og_class class, int64_t n, const og_sum_number *from,
                og_sum_number *to);

// As elements of a tensor, one after the other.
void og_sum_store(og_class class, og_dtype dtype, int64_t n,
                  const og_sum_number *from, void *to);

// 0, 1, ... as the class has numbers: 4 bytes each, or 8.
void og_positions_store(og_class class, int64_t count, char *to);
void og_zeros_store(const og_tensor *t);

// Elements of 1, 2, 4 or 8 bytes; strides in elements.
void og_elements_copy(int64_t bytes, int64_t n, const void *restrict from,
                      int64_t from_stride, void *restrict to,
                      int64_t to_stride);

#endif  // OG_DECL_FORMULA_LOOPS_H
