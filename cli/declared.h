// SPDX-License-Identifier: Apache-2.0
// Where an operator's declaration stands in C files.

#ifndef OPGRAFT_CLI_DECLARED_H
#define OPGRAFT_CLI_DECLARED_H

#include <opgraft/opgraft.h>

// Prints the library's error about a declaration with the file and line of what
// it names, that line, and a caret under the character; without them where no
// file has the text as a string. Returns CLI_FINDINGS.
int cli_declared_error(const char *const *sources, int count,
                       const opgraft_error *error);

#endif  // OPGRAFT_CLI_DECLARED_H
