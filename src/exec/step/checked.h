// SPDX-License-Identifier: Apache-2.0
// What an instance reads of its graph's file, checked before it does
// (graph/blocks.h). Any thread.

#ifndef OG_EXEC_STEP_CHECKED_H
#define OG_EXEC_STEP_CHECKED_H

#include "exec/step/exec.h"

// Marks the constant that the value is, or is a view of. Other values are
// ignored.
void og_checked_want(const opgraft_graph *graph, opgraft_value value);
// The blocks of the file that holds the value's memory; NULL: it is elsewhere.
const og_blocks *og_checked_blocks(const opgraft_graph *graph,
                                   opgraft_value value);
// Checks what is marked, on the executable's threads. OG_INVALID, with the
// file's name, where it was altered.
og_status og_checked_all(opgraft_executable *executable, opgraft_error *error);

#endif  // OG_EXEC_STEP_CHECKED_H
