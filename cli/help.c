// SPDX-License-Identifier: Apache-2.0
// opgraft help: all commands, or one.

#include "cli.h"

static int help_run(const cli_args *args) {
  if (args->operand_count == 0) {
    cli_overview_print(args->commands, stdout);
    return CLI_OK;
  }
  const char *name = cli_only_operand(args, "a command");
  if (name == NULL) return CLI_FAILED;
  const cli_command *command = cli_command_find(args->commands, name);
  if (command == NULL)
    return cli_error("help: '%s' is not a command; `opgraft help` lists them",
                     name);
  cli_help_print(command, stdout);
  return CLI_OK;
}

const cli_command cli_command_help = {
    .name = "help",
    .summary = "explain a command",
    .usage = "[COMMAND]",
    .text = "Prints what there is, or how one command is used.",
    .examples = "  opgraft help build",
    .operand = CLI_OPERAND_COMMAND,
    .run = help_run,
};
