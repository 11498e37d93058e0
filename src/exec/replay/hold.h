// SPDX-License-Identifier: Apache-2.0
// Memory of a call, freed as soon as its last reader has run.

#ifndef OG_EXEC_REPLAY_HOLD_H
#define OG_EXEC_REPLAY_HOLD_H

#include "exec/step/exec.h"

// Finds the holds of an instance whose arrays are made, and, once its steps
// are, which storages they make.
og_status og_holds_make(og_instance *instance, const og_plan *plan);
void og_holds_settle(og_instance *instance);
og_status og_hold_run(void *hold, const og_run *run);

#endif  // OG_EXEC_REPLAY_HOLD_H
