// SPDX-License-Identifier: Apache-2.0
// The process's teams: a call leases one at its first loop, so graphs that do
// not run at once share threads.

#ifndef OG_EXEC_STEP_TEAMS_H
#define OG_EXEC_STEP_TEAMS_H

#include "base/team.h"

// An idle team of so many threads, else a new one; NULL where there is no
// memory for it. Any thread.
og_team *og_teams_take(int32_t threads);
// NULL is allowed.
void og_teams_give(og_team *team);
// While an executable lives, idle teams are kept.
void og_teams_users_add(int32_t change);

#endif  // OG_EXEC_STEP_TEAMS_H
