// SPDX-License-Identifier: Apache-2.0
// What `.expect` says, and what calls showed otherwise.

#ifndef OG_CHECK_VERDICT_EXPECT_H
#define OG_CHECK_VERDICT_EXPECT_H

#include "check/verdict/finding.h"

// Adds a finding for each expectation that is not true; for an operator whose
// calls were all tried.
void og_findings_add_untrue(og_findings *all);

#endif  // OG_CHECK_VERDICT_EXPECT_H
