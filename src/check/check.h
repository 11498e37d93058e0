// SPDX-License-Identifier: Apache-2.0
// The verifier; see <opgraft/check.h>.

#ifndef OG_CHECK_CHECK_H
#define OG_CHECK_CHECK_H

#include <opgraft/check.h>

#include "base/status.h"

og_status og_check(const opgraft_module *module,
                   const opgraft_check_options *options,
                   const opgraft_check_sink *sink, int32_t *out_findings,
                   opgraft_error *error);

#endif  // OG_CHECK_CHECK_H
