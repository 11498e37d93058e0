// SPDX-License-Identifier: Apache-2.0
// What follows from all calls together.

#ifndef OG_CHECK_VERDICT_SETTLE_H
#define OG_CHECK_VERDICT_SETTLE_H

#include "check/verdict/finding.h"

// Adds what all calls together show, drops what only follows from other
// findings, and orders the rest.
void og_findings_settle(og_findings *all);

#endif  // OG_CHECK_VERDICT_SETTLE_H
