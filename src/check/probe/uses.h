// SPDX-License-Identifier: Apache-2.0
// What a declaration says of an argument's use.

#ifndef OG_CHECK_PROBE_USES_H
#define OG_CHECK_PROBE_USES_H

#include "decl/decl.h"

// Whether a rule of the declaration uses the argument `attr`, other than a
// tensor: it has a meaning then.
bool og_is_in_rules(const og_decl *decl, int32_t attr);

#endif  // OG_CHECK_PROBE_USES_H
