// SPDX-License-Identifier: Apache-2.0
// A function of a Python file as the reference of check: a process that
// answers calls at a socket (python/opgraft/check_reference.py).

#ifndef OPGRAFT_CLI_REFERENCE_H
#define OPGRAFT_CLI_REFERENCE_H

#include <opgraft/check.h>
#include <stdbool.h>

typedef struct cli_reference {
  int32_t pid;
  int input;      // the process ends when this is closed
  int32_t *late;  // calls that it did not answer in time; shared with children
  char folder[64];
  char path[80];
} cli_reference;

// Whether the text names one: a Python file, or one and a colon and a function.
bool cli_is_python_reference(const char *text);
// Whether it names the function too.
bool cli_has_reference_function(const char *text);
// Starts the process and waits until it answers. Prints what is wrong.
bool cli_reference_open(const char *text, cli_reference *out_reference);
void cli_reference_close(cli_reference *reference);
// opgraft_check_options.compute, with a cli_reference as its state.
int32_t cli_reference_compute(void *state, const opgraft_reference_call *call);

#endif  // OPGRAFT_CLI_REFERENCE_H
