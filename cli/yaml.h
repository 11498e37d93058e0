// SPDX-License-Identifier: Apache-2.0
// YAML into a tree.

#ifndef OPGRAFT_CLI_YAML_H
#define OPGRAFT_CLI_YAML_H

#include "json.h"

// Prints "file:line: ..." and returns NULL when it is not YAML.
cli_node *cli_yaml_read(const char *path);

#endif  // OPGRAFT_CLI_YAML_H
