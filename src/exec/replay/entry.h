// SPDX-License-Identifier: Apache-2.0
// The plans of an executable.

#ifndef OG_EXEC_REPLAY_ENTRY_H
#define OG_EXEC_REPLAY_ENTRY_H

#include "exec/step/exec.h"

// Under the mutex. Not in the executable's list yet.
og_status og_entry_create(opgraft_executable *executable,
                          const int64_t *symbols,
                          const og_lane_request *request,
                          og_plan_entry **out_entry, opgraft_error *error);
void og_entry_destroy(og_plan_entry *entry);
// The statistics of a plan become the executable's.
void og_entry_stats(opgraft_executable *executable, const og_plan *plan);
// Under the mutex: `made` takes the place of `entry`, which goes when its last
// call does.
void og_entry_replace(og_plan_entry *entry, og_plan_entry *made);

#endif  // OG_EXEC_REPLAY_ENTRY_H
