// SPDX-License-Identifier: Apache-2.0
// What a running step asks for: shares of a loop, and errors.

#ifndef OG_EXEC_STEP_RUN_H
#define OG_EXEC_STEP_RUN_H

#include "exec/step/exec.h"

// Runs fn on shares of [0, total), on the host's threads or ours.
og_status og_run_parallel(const og_run *run, int64_t total, int64_t grain,
                          og_task_fn fn, void *state);
// Fills the run's error.
og_status og_run_fail(const og_run *run, og_status code, const char *format,
                      ...) OG_PRINTF(3, 4);

// Names the step's operator and source line in front of what it said.
og_status og_step_failed(const og_instance *instance, int32_t step,
                         og_status status, opgraft_error *error);

#endif  // OG_EXEC_STEP_RUN_H
