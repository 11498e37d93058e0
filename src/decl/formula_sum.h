// SPDX-License-Identifier: Apache-2.0
// Sums over rows: blocks of rows are added in pairs, blocks in f64 in order.

#ifndef OG_DECL_FORMULA_SUM_H
#define OG_DECL_FORMULA_SUM_H

#include "scalar/scalar.h"

enum { OG_SUM_BLOCK = 64 };  // rows

typedef struct og_sum_number {
  union {
    float f32;
    double f64;
    int64_t i64;
  };
} og_sum_number;

// Of a block of `rows` rows of n elements: the first becomes their sum.
void og_sum_pairs(og_class class, char *from, int64_t rows, int64_t n);
// Element e of what was computed in a class, in f64, or in int64.
og_sum_number og_sum_total(og_class class, const char *sums, int64_t e);
// to += from, in int64 or f64.
void og_sum_add(og_class class, int64_t n, const og_sum_number *from,
                og_sum_number *to);

#endif  // OG_DECL_FORMULA_SUM_H
