// SPDX-License-Identifier: Apache-2.0
// What races found, for this process and in a file for later ones
// (opgraft/tune.h).

#ifndef OG_EXEC_CHOOSE_TUNED_H
#define OG_EXEC_CHOOSE_TUNED_H

#include <opgraft/tune.h>

#include "exec/step/exec.h"

// Reads the file once a process, NULL for none. False where it is damaged: it
// is ignored, `error` says why, and the next write replaces it.
bool og_tuned_load(const char *path, opgraft_error *error);
// What is known of a node; false where nothing is.
bool og_tuned_find(const char *node, og_candidate *out);
// Keeps a result, unless one is there: the one that is kept is left in `by`.
// `found` says the times. Without memory it is not kept.
void og_tuned_add(const char *node, const char *found, og_candidate *by);
// Adds what this process found since to the file; NULL for none.
og_status og_tuned_write(const char *path, opgraft_error *error);
// Forgets all, as a new process has it. For tests.
void og_tuned_forget(void);

#endif  // OG_EXEC_CHOOSE_TUNED_H
