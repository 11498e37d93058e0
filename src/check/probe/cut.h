// SPDX-License-Identifier: Apache-2.0
// Whether later places of a dim change earlier ones.

#ifndef OG_CHECK_PROBE_CUT_H
#define OG_CHECK_PROBE_CUT_H

#include "check/run/trial.h"

// Whether the last place of a plain dim changes no result but its own, at a few
// large sizes.
bool og_is_causal(og_trial *trial, int32_t dim);

#endif  // OG_CHECK_PROBE_CUT_H
