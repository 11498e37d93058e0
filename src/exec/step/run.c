// SPDX-License-Identifier: Apache-2.0
// What a running step asks for: shares of a loop, and errors.

#include "exec/step/run.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "exec/step/teams.h"

og_status og_run_fail(const og_run *run, og_status code, const char *format,
                      ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return og_error_set(run->error, code, NULL, NULL, "%s", text);
}

// The call's team; NULL where it is to run on one thread. A lane finds the team
// that its section leased.
static og_team *run_team(const og_run *run) {
  const opgraft_executable *executable = run->executable;
  const opgraft_host *host = &executable->host;
  if (*run->team != NULL) return *run->team;
  int32_t threads = executable->threads;
  if (host->threads_now != NULL) {
    const int32_t now = host->threads_now(host->context);
    // Kernels have scratch for no more workers.
    if (now < threads) threads = now;
  }
  if (threads > 1) *run->team = og_teams_take(threads);
  return *run->team;
}

// How long the loops of the call are expected to take. A section's is the first
// of its lanes, so no two threads begin one.
static int64_t loops_expected(const og_run *run) {
  og_loops_time *time = run->loops_time;
  if (time == NULL) return 0;
  if (time->begun_ns == 0) time->begun_ns = og_now_ns();
  return time->expected_ns;
}

og_status og_run_parallel(const og_run *run, int64_t total, int64_t grain,
                          og_task_fn fn, void *state) {
  opgraft_executable *executable = run->executable;
  if (executable->threads <= 1 || total <= grain) {
    fn(state, 0, total, 0);
    return OG_OK;
  }
  if (executable->team != NULL || run->team != NULL) {
    og_team *team = executable->team != NULL ? executable->team : run_team(run);
    if (team != NULL)
      og_team_run_expected(team, loops_expected(run), total, grain, fn, state);
    else
      fn(state, 0, total, 0);
    return OG_OK;
  }
  const og_call call = {.struct_size = sizeof call,
                        .threads = executable->threads,
                        .host = executable->host.context};
  return executable->host.parallel_for(&call, total, grain, fn, state);
}

og_status og_step_failed(const og_instance *instance, int32_t step,
                         og_status status, opgraft_error *error) {
  const og_node *node =
      &instance->entry->plan->graph->nodes[instance->step_infos[step].node];
  const char *name = og_node_name(node);
  char reason[sizeof error->text];
  if (error == NULL) return status;
  snprintf(reason, sizeof reason, "%s",
           error->code != OG_OK ? error->text : opgraft_status_text(status));
  return og_error_set(error, status, name, NULL, "%s%s: %s", name,
                      og_node_source(node, &(og_source){{0}}), reason);
}
