// SPDX-License-Identifier: Apache-2.0
// What most subcommands need, one header each.
//
// The program uses the public headers only. It is one process that runs one
// command and ends, so running out of memory prints a line and exits.

#ifndef OPGRAFT_CLI_CLI_H
#define OPGRAFT_CLI_CLI_H

#include "compile.h"
#include "cuda.h"
#include "hosts.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "places.h"
#include "system.h"
#include "target.h"

#endif  // OPGRAFT_CLI_CLI_H
