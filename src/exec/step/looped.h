// SPDX-License-Identifier: Apache-2.0
// The row programs of an instance and the memory of their code.

#ifndef OG_EXEC_STEP_LOOPED_H
#define OG_EXEC_STEP_LOOPED_H

#include "exec/step/prep.h"
#include "loop/loop.h"

// Compiles a program, which lives as long as the instance; equal programs are
// compiled once, so nodes may share one. It runs when all nodes are prepared,
// not before. Failure: as og_loop_create.
og_status og_prep_loop(og_prep *prep, const og_loop_spec *spec,
                       og_loop **out_loop);
// Makes the code of all of them executable, when all are compiled. False where
// the system refuses: they are interpreted.
bool og_loops_seal(og_instance *instance);
// The last program compiled for a node; NULL: none was.
const og_loop *og_loop_of(const og_instance *instance, const og_node *node);
// How many different programs the instance's nodes run.
int32_t og_loops_compiled(const og_instance *instance);
void og_loops_release(og_instance *instance);

#endif  // OG_EXEC_STEP_LOOPED_H
