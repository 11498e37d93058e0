// SPDX-License-Identifier: Apache-2.0
// The surroundings of a run of a kernel.

#include "check/run/mode.h"

const og_mode og_mode_plain = {
    .shares = OG_SHARES_ONE,
    .threads = 1,
    .poison = 0xff,
    .workspace_poison = 0xff,
    .stack_poison = 0xff,
    .redzone = 0xc7,
};
