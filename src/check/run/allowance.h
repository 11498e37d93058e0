// SPDX-License-Identifier: Apache-2.0
// How long children may work, and how long their parent waits for them.

#ifndef OG_CHECK_RUN_ALLOWANCE_H
#define OG_CHECK_RUN_ALLOWANCE_H

#include "check/run/child.h"

// What children may still use: processor time, so that a busy machine tries as
// much as an idle one, and time by the clock for what mostly sleeps.
typedef struct og_allowance {
  int64_t work_ms;
  int64_t deadline_ms;
} og_allowance;

// `ms` of processor time, and 30 times as much by the clock.
og_allowance og_allow(int64_t ms);
// Whether it is used up, `used_ms` being what a living child has used.
bool og_is_over(const og_allowance *left, int64_t used_ms);
// Whether the user wants no more.
bool og_is_stopped(const opgraft_check_sink *sink);
// Waits for a record as long as the child works, or would if it got a
// processor: on a busy machine it may be slow to speak. 0: it neither works nor
// speaks, or the user wants no more; otherwise as og_child_read.
int32_t og_child_wait(const opgraft_check_sink *sink, og_child *child,
                      og_record *out, int32_t *out_exit);

#endif  // OG_CHECK_RUN_ALLOWANCE_H
