// SPDX-License-Identifier: Apache-2.0
// C files into modules that are loaded.

#ifndef OPGRAFT_CLI_COMPILE_H
#define OPGRAFT_CLI_COMPILE_H

#include <opgraft/opgraft.h>
#include <stdbool.h>

#include "hosts.h"

typedef struct cli_compile_job {
  const char *const *sources;
  int source_count;
  const char *output;
  const char *compiler;  // NULL: $CC, cc, gcc, clang
  const char *nvcc;      // for .cu files; NULL: they stay source
  const char *optimize;  // "3"; NULL: 3, or g where is_debug
  char *const *flags;    // added last
  int flag_count;
  // Besides those that read any module, ended by NULL; NULL: none.
  const cli_host *const *hosts;
  bool has_cuda;  // set by cli_compile: links what <opgraft/cuda.h> declares
  bool is_debug;
  bool is_verbose;  // prints the command
  bool is_loaded;   // loads the result before it replaces the output
} cli_compile_job;

// The words of the compiler command, ended by NULL; NULL when none is found.
char **cli_compiler_find(const char *wanted);
// CLI_OK when the output is there, CLI_FINDINGS when the compiler or a
// declaration says no. Prints what is wrong; the old output then stays.
int cli_compile(const cli_compile_job *job);

// C of the module's formulas, "" without any (opgraft_module_print_code).
char *cli_formulas_code(const opgraft_module *module);

typedef struct cli_module {
  const char *path;  // as the user gave it
  char *object;      // the shared object: `path`, or what it was built to
  bool is_temp;      // of `object`
  opgraft_module *module;
} cli_module;

// Loads a shared object, or builds a C file to a temporary and loads that; of a
// file of the operator library, loads what CMake built.
// Prints what is wrong and returns false.
bool cli_module_open(const char *path, cli_module *out_module);
void cli_module_close(cli_module *module);
// The operator that --op names; its first one where `name` is NULL. Prints.
const opgraft_op *cli_op_find(const opgraft_module *module, const char *name);

#endif  // OPGRAFT_CLI_COMPILE_H
