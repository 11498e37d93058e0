// SPDX-License-Identifier: Apache-2.0
// Whether lanes pay: found by the clock, in the first replays of a plan.

#ifndef OG_EXEC_REPLAY_LANE_TRIAL_H
#define OG_EXEC_REPLAY_LANE_TRIAL_H

#include "exec/step/exec.h"

// Under the mutex: a new entry's replays are timed, if lanes are enabled.
void og_lane_trial_begin(og_plan_entry *entry);
// A replay of an entry that is tried.
og_status og_lane_trial_run(const og_instance *instance, const og_run *run);
// Another trial, now that entry->try_at replays were.
void og_lane_trial_again(og_plan_entry *entry);

#endif  // OG_EXEC_REPLAY_LANE_TRIAL_H
