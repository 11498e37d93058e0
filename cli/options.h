// SPDX-License-Identifier: Apache-2.0
// Commands and their arguments.

#ifndef OPGRAFT_CLI_OPTIONS_H
#define OPGRAFT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Exit codes of every command.
enum {
  CLI_OK = 0,
  CLI_FINDINGS = 1,     // it ran, and what it looked at is not right
  CLI_FAILED = 2,       // it could not run: usage, files, environment
  CLI_SIGNALLED = 128,  // + the signal that stopped it
};

typedef struct cli_option {
  const char *name;   // "output": --output
  const char *value;  // what stands for its value in help; NULL: a flag
  const char *help;
  char letter;  // 'o': -o; 0: none
} cli_option;

// What shell completion offers for an operand.
typedef enum cli_operand {
  CLI_OPERAND_NONE,
  CLI_OPERAND_C,       // C files
  CLI_OPERAND_MODULE,  // shared objects and C files
  CLI_OPERAND_GRAPH,
  CLI_OPERAND_INSPECT,  // modules, C files and graphs
  CLI_OPERAND_YAML,
  CLI_OPERAND_GEN,  // YAML, modules and C files
  CLI_OPERAND_PYTHON,
  CLI_OPERAND_EVENTS,
  CLI_OPERAND_COMMAND,
  CLI_OPERAND_SHELL,
} cli_operand;

typedef struct cli_args cli_args;

typedef struct cli_command {
  const char *name;
  const char *summary;        // one line without a full stop
  const char *usage;          // what follows the name
  const char *text;           // plain sentences
  const char *examples;       // lines
  const cli_option *options;  // ended by one without a name; may be NULL
  cli_operand operand;
  bool is_first_operand_last;  // what follows it is not ours: `rest`
  int (*run)(const cli_args *args);
} cli_command;

typedef struct cli_given {
  const cli_option *option;
  const char *value;  // NULL for a flag
} cli_given;

struct cli_args {
  const cli_command *const *commands;  // the program's, ended by NULL
  const cli_command *command;
  cli_given *given;  // in the order of the command line
  int given_count;
  const char **operands;
  int operand_count;
  char **rest;  // what follows --, or the operand that is the last
  int rest_count;
};

// Splits a command's arguments. Prints what is wrong and returns false.
bool cli_args_parse(const cli_command *const *commands,
                    const cli_command *command, int argc, char **argv,
                    cli_args *out_args);
void cli_args_reset(cli_args *args);
bool cli_has(const cli_args *args, const char *option);
// The last value given, or NULL.
const char *cli_value_of(const cli_args *args, const char *option);
// A whole number between `least` and `most`, `fallback` if not given. Prints
// what is wrong and returns false.
bool cli_number_of(const cli_args *args, const char *option, int64_t least,
                   int64_t most, int64_t fallback, int64_t *out_number);
// The one operand of a command that takes one. Prints and returns NULL.
const char *cli_only_operand(const cli_args *args, const char *what);
void cli_help_print(const cli_command *command, FILE *to);
// All commands of a list that NULL ends.
void cli_overview_print(const cli_command *const *commands, FILE *to);
// NULL if none has the name.
const cli_command *cli_command_find(const cli_command *const *commands,
                                    const char *name);
// The nearest of `names` to `name`, NULL if none is near.
const char *cli_nearest(const char *name, const char *const *names, int count);

#endif  // OPGRAFT_CLI_OPTIONS_H
