// SPDX-License-Identifier: Apache-2.0
// Limits of a child, and the signals that tell of a kernel beyond them.

#ifndef OG_CHECK_RUN_LIMITS_H
#define OG_CHECK_RUN_LIMITS_H

#include <opgraft/check.h>

#include "module/module.h"

// Sets the limits of memory, and has crashes sent as records.
void og_limits_set(const opgraft_check_options *options);
// For a child that loads a driver: ends it after 10 s of processor time, or
// with its parent; what it prints goes nowhere.
void og_limits_bound(void);
// Without limits, for a process that goes on: only so that arguments can be
// watched (run/watchpoint.h). A crash ends the process as it would by itself.
void og_limits_watch(void);
// Arms the clock of one run; a crash by SIGPROF is sent when it runs out.
// Names the operator that runs, for the handler.
void og_limits_arm(const opgraft_op *op);
// The same for a run that takes long: so many ms, where there is a limit.
void og_limits_arm_for(const opgraft_op *op, int32_t ms);

#endif  // OG_CHECK_RUN_LIMITS_H
