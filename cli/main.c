// SPDX-License-Identifier: Apache-2.0
// The program: finds the command and runs it.

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#ifndef OPGRAFT_VERSION
#define OPGRAFT_VERSION "unknown"
#endif

#define COMMAND(name) extern const cli_command cli_command_##name;
#include "commands.def"
#undef COMMAND

static const cli_command *const commands[] = {
#define COMMAND(name) &cli_command_##name,
#include "commands.def"
#undef COMMAND
    NULL,
};

static int unknown_command(const char *name) {
  const char *names[sizeof commands / sizeof *commands];
  int count = 0;
  for (; commands[count] != NULL; ++count) names[count] = commands[count]->name;
  const char *near = cli_nearest(name, names, count);
  if (near != NULL)
    return cli_error("'%s' is not a command; did you mean `opgraft %s`?", name,
                     near);
  return cli_error("'%s' is not a command; `opgraft help` lists them", name);
}

static int command_run(const cli_command *command, int argc, char **argv) {
  cli_args args;
  if (!cli_args_parse(commands, command, argc, argv, &args)) return CLI_FAILED;
  int result = CLI_OK;
  if (cli_has(&args, "help"))
    cli_help_print(command, stdout);
  else
    result = command->run(&args);
  cli_args_reset(&args);
  return result;
}

static int program_run(int argc, char **argv) {
  if (argc < 2) {
    cli_overview_print(commands, stderr);
    return CLI_FAILED;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("opgraft %s (ABI %u)\n", OPGRAFT_VERSION,
           (unsigned)opgraft_abi_version());
    return CLI_OK;
  }
  const cli_command *command = cli_command_find(commands, name);
  if (command == NULL) return unknown_command(name);
  return command_run(command, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
  // A file that may not grow is an error that is told, and nothing half written
  // stays. Every system that has such a limit has the signal.
  signal(SIGXFSZ, SIG_IGN);
  const int result = program_run(argc, argv);
  // A full disk or a closed pipe shows only here, or in an earlier flush.
  const bool is_written = fflush(stdout) == 0 && ferror(stdout) == 0;
  if (is_written || result == CLI_FAILED) return result;
  return cli_error("could not write to standard output");
}
