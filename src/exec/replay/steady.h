// SPDX-License-Identifier: Apache-2.0
// Steps of what depends on parameters and constants alone (pass steady): an
// instance keeps what others read of it, and leaves them out while nobody wrote
// the parameters.

#ifndef OG_EXEC_REPLAY_STEADY_H
#define OG_EXEC_REPLAY_STEADY_H

#include "exec/step/exec.h"

// Of an instance whose steps are made. Failure: OG_MEMORY.
og_status og_steady_make(og_instance *instance);
void og_steady_release(og_instance *instance);
// Whether the steady steps of this call's inputs may be left out.
bool og_steady_is_kept(og_instance *instance);
// Runs the steps of a call, or those that are not steady.
og_status og_steady_run(og_instance *instance, og_run *run);

#endif  // OG_EXEC_REPLAY_STEADY_H
