// SPDX-License-Identifier: Apache-2.0
// The kernels that ops.def names.

#ifndef OG_EXEC_CANDIDATES_H
#define OG_EXEC_CANDIDATES_H

#include "exec/step/prep.h"

// OG_BY_PLAIN or OG_BY_FAST of an IR operator; NULL if it has no fast one.
og_prepare_fn og_candidate_kernel(int32_t op, og_candidate by);

#endif  // OG_EXEC_CANDIDATES_H
