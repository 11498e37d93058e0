// SPDX-License-Identifier: Apache-2.0
// What can be seen after a run without knowing what the operator computes.

#ifndef OG_CHECK_RUN_SEE_H
#define OG_CHECK_RUN_SEE_H

#include "check/run/running.h"

// Reports memory that the kernel wrote and may not, a tensor of the call that
// it changed, and dims; run->is_wrong says whether there is any.
void og_see_run(og_running *run);

#endif  // OG_CHECK_RUN_SEE_H
