// SPDX-License-Identifier: Apache-2.0
// Our own threads for calls outside a framework.
//
// opgraft_team is og_team under its public name: neither is ever looked into
// from outside base/team.c.

#include "base/team.h"

#include "call/call.h"

og_status opgraft_team_create(int32_t threads, opgraft_team **out_team,
                              opgraft_error *error) {
  og_team *team = NULL;
  const og_status status = og_team_create(threads, &team, error);
  *out_team = (opgraft_team *)team;
  return status;
}

void opgraft_team_destroy(opgraft_team *team) {
  og_team_destroy((og_team *)team);
}

int32_t opgraft_team_threads(const opgraft_team *team) {
  return og_team_threads((const og_team *)team);
}

static og_status team_parallel_for(const og_call *call, int64_t total,
                                   int64_t grain, og_task_fn fn, void *state) {
  og_team_run(call->host, total, grain, fn, state);
  return OG_OK;
}

void opgraft_frame_set_team(opgraft_frame *frame, opgraft_team *team) {
  frame->call.host = team;
  frame->call.threads = opgraft_team_threads(team);
  frame->call.parallel_for = team_parallel_for;
}
