// SPDX-License-Identifier: Apache-2.0
// The commonest cause of what goes wrong in every call: the kernel's enum names
// the dims in another order than the rule.

#ifndef OG_CHECK_EXCHANGE_H
#define OG_CHECK_EXCHANGE_H

#include "check/probe/trials.h"
#include "check/verdict/finding.h"

// Where a finding's calls are all right once the kernel gets the sizes of two
// dims in exchange, the finding's text says so. `job` is the one that showed
// the findings.
og_status og_findings_exchange(const og_job *job,
                               const opgraft_check_sink *sink,
                               og_findings *found, opgraft_error *error);

#endif  // OG_CHECK_EXCHANGE_H
