// SPDX-License-Identifier: Apache-2.0
// The orders in which memory may have the items of a result's shape.

#include "check/run/axis_order.h"

int32_t og_order_count(int32_t items) {
  int32_t count = 1;
  for (int32_t i = 2; i <= items; ++i) count *= i;
  return count;
}

void og_order_get(int32_t items, int32_t which, int32_t out[OG_ORDER_ITEMS]) {
  int32_t left[OG_ORDER_ITEMS];
  for (int32_t i = 0; i < items; ++i) left[i] = i;
  for (int32_t i = 0; i < items; ++i) {
    const int32_t below = og_order_count(items - 1 - i);
    const int32_t pick = which / below;
    which %= below;
    out[i] = left[pick];
    for (int32_t k = pick; k + 1 < items - i; ++k) left[k] = left[k + 1];
  }
}
