// SPDX-License-Identifier: Apache-2.0
// Smaller calls that still show a finding.

#ifndef OG_CHECK_SHRINK_H
#define OG_CHECK_SHRINK_H

#include "check/probe/trials.h"
#include "check/verdict/finding.h"

// Gives the finding, where it may have one, the smallest call that children
// find in 1.5 s of processor time; `job` is the one that showed it.
og_status og_finding_shrink(const og_job *job, const opgraft_check_sink *sink,
                            og_finding *finding, opgraft_error *error);

#endif  // OG_CHECK_SHRINK_H
