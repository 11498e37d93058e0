// SPDX-License-Identifier: Apache-2.0
// A specification: a YAML file with operators of either form.

#ifndef OPGRAFT_CLI_SPEC_READ_H
#define OPGRAFT_CLI_SPEC_READ_H

#include "spec.h"

// Prints "file:line: ..." and returns false when it is not a specification.
bool spec_read(const char *path, spec *out_spec);

#endif  // OPGRAFT_CLI_SPEC_READ_H
