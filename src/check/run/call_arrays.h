// SPDX-License-Identifier: Apache-2.0
// The arrays of the call itself, between unreadable pages.

#ifndef OG_CHECK_RUN_CALL_ARRAYS_H
#define OG_CHECK_RUN_CALL_ARRAYS_H

#include "check/run/running.h"

// Moves them (`in`, `out`, `attr`, `dim`, lists) between unreadable pages: none
// has more entries than the declaration says. *out_dim is where the dims are
// now. False when memory is short.
bool og_guard_arrays(og_running *run, int64_t **out_dim);

#endif  // OG_CHECK_RUN_CALL_ARRAYS_H
