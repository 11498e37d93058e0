// SPDX-License-Identifier: Apache-2.0
// What a buffer or a result is called in a report.

#ifndef OG_CHECK_RUN_NAME_H
#define OG_CHECK_RUN_NAME_H

#include "check/run/guard.h"
#include "module/module.h"

// A buffer's or an output's name for people: "x", "xs[1]", "result".
void og_name_of(const opgraft_op *op, og_role role, int32_t index,
                int32_t entry, char *out, size_t size);

#endif  // OG_CHECK_RUN_NAME_H
