// SPDX-License-Identifier: Apache-2.0
// What a crash says of the kernel.

#ifndef OG_CHECK_VERDICT_CRASH_H
#define OG_CHECK_VERDICT_CRASH_H

#include "check/verdict/finding.h"

// A finding's fields from a crash of the operator's kernel.
void og_finding_of_crash(const opgraft_op *op, const og_record_crash *crash,
                         const og_found_at *at, og_finding *out);

#endif  // OG_CHECK_VERDICT_CRASH_H
