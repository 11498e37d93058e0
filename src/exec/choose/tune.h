// SPDX-License-Identifier: Apache-2.0
// The tuner: a node's candidates raced on its real shapes, over memory of the
// tuner's own, when the node is prepared.

#ifndef OG_EXEC_CHOOSE_TUNE_H
#define OG_EXEC_CHOOSE_TUNE_H

#include "exec/choose/choose.h"

// What an executable may spend, and where results go.
typedef struct og_tuning {
  int64_t left_ns;    // atomic
  int64_t most_ns;    // of one race
  og_text undecided;  // under the executable's mutex: a node a line
  char *file;         // NULL: results are kept for the process only
  char *with;         // what the host's kernels are: "torch 2.13.0"
  char *others;       // atomic: as much memory as the caches have; NULL
} og_tuning;

// Of the kernels' code: what was timed with other code is raced again.
extern const char og_kernels_key[];

// Of the host's fields; NULL in *out_tuning where no timing decides.
og_status og_tuning_create(const opgraft_host *host, og_tuning **out_tuning,
                           opgraft_error *error);
void og_tuning_destroy(og_tuning *tuning);

// Moves the fastest candidate to the front of `order`: the one known from an
// earlier race of such a node, or from one that is run now. The order stays as
// it is where time is up or no candidate takes the node. Candidates that stand
// first win ties; the plain one does not run.
void og_tune(const og_prep *prep, og_order *order);
// What was found since goes to the file. What is wrong with it is said by
// host.log.
void og_tune_save(const opgraft_executable *executable);

#endif  // OG_EXEC_CHOOSE_TUNE_H
