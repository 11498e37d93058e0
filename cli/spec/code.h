// SPDX-License-Identifier: Apache-2.0
// The C text of a specification.

#ifndef OPGRAFT_CLI_SPEC_CODE_H
#define OPGRAFT_CLI_SPEC_CODE_H

#include "spec.h"

// Writes the C file.
void spec_write(const spec *s, FILE *to);

#endif  // OPGRAFT_CLI_SPEC_CODE_H
