// SPDX-License-Identifier: Apache-2.0
// Specifications in our own form, which has the fields of og_op.

#ifndef OPGRAFT_CLI_SPEC_OWN_H
#define OPGRAFT_CLI_SPEC_OWN_H

#include "spec.h"

// One operator. Prints what is wrong and returns false.
bool spec_own_read(const spec *s, const cli_node *node, spec_op *out_op);

#endif  // OPGRAFT_CLI_SPEC_OWN_H
