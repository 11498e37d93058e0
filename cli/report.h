// SPDX-License-Identifier: Apache-2.0
// What `opgraft report` and `opgraft doctor` share: the forms of a report.

#ifndef OPGRAFT_CLI_REPORT_H
#define OPGRAFT_CLI_REPORT_H

#include <opgraft/report.h>

#include "cli.h"

#define CLI_REPORT_OPTIONS \
  { "json", "FILE", "write the report as JSON; - for stdout", 0 }

// Reports on an event file as the options of CLI_REPORT_OPTIONS ask. Prints.
int cli_report(const cli_args *args, const char *events);

#endif  // OPGRAFT_CLI_REPORT_H
