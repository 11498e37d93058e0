// SPDX-License-Identifier: Apache-2.0
// The surroundings of a run of a kernel.

#include "check/run/mode.h"

#include <string.h>

const og_mode og_mode_plain = {
    .shares = OG_SHARES_ONE,
    .threads = 1,
    .poison = 0xff,
    .workspace_poison = 0xff,
    .stack_poison = 0xff,
    .redzone = 0xc7,
};

void og_poison(void *memory, size_t bytes, uint16_t poison) {
  uint8_t *at = memory;
  memset(at, poison & 0xff, bytes);
  for (size_t i = 0; poison == OG_POISON_SMALL && i < bytes; i += 8) at[i] = 1;
}
