// SPDX-License-Identifier: Apache-2.0
// Runs the steps of an instance.

#ifndef OG_EXEC_REPLAY_SECTIONS_H
#define OG_EXEC_REPLAY_SECTIONS_H

#include "exec/step/exec.h"

// All steps. section_ns, which may be NULL, gets the time of each section. An
// error names the step.
og_status og_steps_run(const og_instance *instance, const og_run *run,
                       int64_t *section_ns);
// One after the other, and the time of each.
og_status og_steps_run_timed(const og_instance *instance, const og_run *run,
                             int64_t *step_ns);

#endif  // OG_EXEC_REPLAY_SECTIONS_H
