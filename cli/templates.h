// SPDX-License-Identifier: Apache-2.0
// The files that `opgraft new` writes. @NAME@ stands for the operator's name,
// or the device's.

#ifndef OPGRAFT_CLI_TEMPLATES_H
#define OPGRAFT_CLI_TEMPLATES_H

extern const char cli_template_operator[];
extern const char cli_template_test[];
extern const char cli_template_bench[];
extern const char cli_template_cmake[];
extern const char cli_template_driver[];
extern const char cli_template_driver_test[];

#endif  // OPGRAFT_CLI_TEMPLATES_H
