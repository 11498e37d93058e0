// SPDX-License-Identifier: Apache-2.0
// Sums over rows, of numbers in order.

#include "decl/formula_sum.h"

#include <string.h>

#define PAIRS(T, sum)                                              \
  for (int64_t half = OG_SUM_BLOCK / 2; half > 0; half /= 2)       \
    for (int64_t k = 0; k < half && k + half < rows; ++k)          \
      for (int64_t e = 0; e < n; ++e) {                            \
        T *a = (T *)(void *)from + k * n + e;                      \
        const T b = ((const T *)(void *)from)[(k + half) * n + e]; \
        *a = sum;                                                  \
      }
// Rows k and k + 32 of a block, then k and k + 16, ...
void og_sum_pairs(og_class class, char *from, int64_t rows, int64_t n) {
  switch (class) {
    case OG_CLASS_F32:
      PAIRS(float, *a + b)
      break;
    case OG_CLASS_F64:
      PAIRS(double, *a + b)
      break;
    default:
      PAIRS(int64_t, (int64_t)((uint64_t)*a + (uint64_t)b))
  }
}
#undef PAIRS

og_sum_number og_sum_total(og_class class, const char *sums, int64_t e) {
  og_sum_number out = {.i64 = 0};
  float single;
  if (class != OG_CLASS_F32) {
    memcpy(&out, sums + e * 8, sizeof out);
    return out;
  }
  memcpy(&single, sums + e * 4, sizeof single);
  out.f64 = (double)single;
  return out;
}

void og_sum_add(og_class class, int64_t n, const og_sum_number *from,
                og_sum_number *to) {
  if (class == OG_CLASS_I64)
    for (int64_t e = 0; e < n; ++e)
      to[e].i64 = (int64_t)((uint64_t)to[e].i64 + (uint64_t)from[e].i64);
  else
    for (int64_t e = 0; e < n; ++e) to[e].f64 += from[e].f64;
}
