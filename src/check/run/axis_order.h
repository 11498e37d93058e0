// SPDX-License-Identifier: Apache-2.0
// The orders in which memory may have the items of a result's shape: 0 is the
// declared one.

#ifndef OG_CHECK_RUN_AXIS_ORDER_H
#define OG_CHECK_RUN_AXIS_ORDER_H

#include <stdint.h>

enum { OG_ORDER_ITEMS = 4, OG_ORDERS_MAX = 24 };

int32_t og_order_count(int32_t items);
void og_order_get(int32_t items, int32_t which, int32_t out[OG_ORDER_ITEMS]);

#endif  // OG_CHECK_RUN_AXIS_ORDER_H
