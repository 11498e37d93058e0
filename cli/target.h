// SPDX-License-Identifier: Apache-2.0
// Where a command writes a file.

#ifndef OPGRAFT_CLI_TARGET_H
#define OPGRAFT_CLI_TARGET_H

#include <stdbool.h>
#include <stdio.h>

// A file that is written whole or not at all, also where a signal ends the
// program. A link's target is replaced, not the link; other things (a
// device, a pipe, the program's own output) is written into at the end.
typedef struct cli_target {
  const char *path;  // as the user gave it
  char *temp;        // what to write, by this name
  char *place;       // NULL: no file
  FILE *stream;      // this program's own, or NULL
} cli_target;

// Before a command does anything: no output is an input, or one output twice,
// or a folder, a disk or a socket. Prints and returns false.
bool cli_outputs_check(const char *const *outputs, int output_count,
                       const char *const *inputs, int input_count);
// Prints and returns false; then there is nothing to end.
bool cli_target_begin(const char *path, cli_target *out_target);
// The temporary takes its place where it is right, and goes. Prints where that
// fails; false then, and where it is not right.
bool cli_target_end(cli_target *target, bool is_right, bool is_program);
// All of it at once.
bool cli_file_write(const char *path, const char *bytes, size_t size);

#endif  // OPGRAFT_CLI_TARGET_H
