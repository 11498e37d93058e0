// SPDX-License-Identifier: Apache-2.0
// What `opgraft report` and `opgraft doctor` share: the forms of a report.

#ifndef OPGRAFT_CLI_REPORT_H
#define OPGRAFT_CLI_REPORT_H

#include <opgraft/report.h>

#include "cli.h"

#define CLI_REPORT_OPTIONS                                                  \
  {"json", "FILE", "write the report as JSON; - for stdout", 0},            \
      {"sarif", "FILE", "write it as SARIF 2.1.0", 0},                      \
      {"html", "FILE", "write it as one HTML page", 0},                     \
      {"row", "FILE", "write it as one row of a table", 0},                 \
      {"baseline", "FILE", "an event file: a root that it lacks fails", 0}, \
      {"max-roots", "N", "more roots fail", 0},                             \
      {"max-recompiles", "N", "more recompiles fail", 0},                   \
      {"max-lost-ms", "MS", "roots that cost more per step fail", 0}, {     \
    "min-captured", "PERCENT", "fewer operators in graphs fail", 0          \
  }

enum { CLI_REPORT_INPUTS_MAX = 4 };

// Before anything runs: what the options write, and `written` besides (four at
// most), is nothing that is read. Prints and returns false.
bool cli_report_outputs_check(const cli_args *args, const char *const *written,
                              int written_count, const char *const *inputs,
                              int input_count);
// Reports on an event file as the options of CLI_REPORT_OPTIONS ask. Prints;
// CLI_FINDINGS where a limit is not kept.
int cli_report(const cli_args *args, const char *events);
// How many root causes an event file has; -1, and prints, where it has no form.
int32_t cli_report_root_count(const char *events);
// `opgraft doctor --compare`: what changed between two event files. Prints.
int cli_report_compare(const char *before, const char *after);

#endif  // OPGRAFT_CLI_REPORT_H
