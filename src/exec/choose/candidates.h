// SPDX-License-Identifier: Apache-2.0
// The kernels that ops.def names, and how a candidate is asked.

#ifndef OG_EXEC_CHOOSE_CANDIDATES_H
#define OG_EXEC_CHOOSE_CANDIDATES_H

#include "exec/step/prep.h"

// Of an IR operator; NULL if it has no such one of ours.
og_prepare_fn og_candidate_kernel(int32_t op, og_candidate by);
// Prepares the node's step, by a candidate that it has. OG_UNSUPPORTED or
// OG_SHAPE: it does not take the node. A host that is slow to reach takes
// nothing unless it `may_be_slow`.
og_status og_candidate_ask(og_prep *prep, og_candidate by, bool may_be_slow);

#endif  // OG_EXEC_CHOOSE_CANDIDATES_H
