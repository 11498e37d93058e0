// SPDX-License-Identifier: Apache-2.0
// A team of threads that shares out loops.

#ifndef OG_BASE_TEAM_H
#define OG_BASE_TEAM_H

#include "base/status.h"

typedef struct og_team og_team;

// A team of `threads` workers, of which the caller of og_team_run is one;
// 0 asks for one per processor that this process may use. Threads start at
// the first loop that needs them. Fails with OG_INVALID or OG_MEMORY.
og_status og_team_create(int32_t threads, og_team **out_team,
                         opgraft_error *error);
// No loop of the team may be running. NULL is allowed.
void og_team_destroy(og_team *team);
int32_t og_team_threads(const og_team *team);

// Calls fn on disjoint shares that cover [0, total), each at least `grain`
// long where there are several, and returns when all are done. Shares shrink as
// fewer items are left, and a worker takes the next one when it is through with
// the last, so a processor that others use too does not hold the loop up. The
// caller takes from the front, every second worker from the end. Workers have
// the caller's floating-point environment. `worker` is below og_team_threads,
// and no two shares of this loop that run at once have the same one. Any thread
// may call it at any time: a loop inside a share, or beside a running loop,
// runs on the thread that asks for it, and one inside a share keeps that
// share's worker. After fork() the child's team has threads of its own. Where
// threads cannot be started the loop runs on fewer.
void og_team_run(og_team *team, int64_t total, int64_t grain, og_task_fn fn,
                 void *state);
// The same as a part of a run of loops that take about `expected_ns`, all of
// them: where that is short beside waking the workers, and all of these sleep,
// the caller runs the loop alone, and wakes them only once such runs follow one
// another without a pause. 0: it is not known, and they are woken.
void og_team_run_expected(og_team *team, int64_t expected_ns, int64_t total,
                          int64_t grain, og_task_fn fn, void *state);

#endif  // OG_BASE_TEAM_H
