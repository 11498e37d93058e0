// SPDX-License-Identifier: Apache-2.0
// opgraft inspect takes modules and graphs.

#ifndef OPGRAFT_CLI_INSPECT_H
#define OPGRAFT_CLI_INSPECT_H

#include "cli.h"

int cli_graph_inspect(const cli_args *args, const char *path);
// A plan (opgraft_executable_schedule) as a page, to stdout.
void cli_page_print(const char *schedule);
// Prints a .pyi of the module.
int cli_stub_print(const opgraft_module *module);

#endif  // OPGRAFT_CLI_INSPECT_H
