// SPDX-License-Identifier: Apache-2.0
// What all calls together show of effects: an argument or an end of it that
// nothing depends on, a result whose dims lie in another order.

#ifndef OG_CHECK_VERDICT_EFFECTS_H
#define OG_CHECK_VERDICT_EFFECTS_H

#include "check/verdict/finding.h"

// One more call for the argument; bit i of `used`: used[i] had an effect.
void og_effects_count(og_effects *uses, const char *name, uint32_t used);
// One more call for an item of a fresh result's shape: bits of the orders of
// its items that fit.
void og_orders_count(og_findings *all, int32_t fresh, int32_t item,
                     uint32_t fits);
// Adds those findings; for an operator whose calls were all tried.
void og_findings_add_effects(og_findings *all);

#endif  // OG_CHECK_VERDICT_EFFECTS_H
