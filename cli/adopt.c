// SPDX-License-Identifier: Apache-2.0
// opgraft adopt: makes operators of what a specification lists, in a Python of
// its own, says what they are, and checks them.

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    {"check", NULL, "run the verifier on each operator", 0},
    {"host", "torch", "with --check: PyTorch's own tests as well", 0},
    {"json", NULL, "print what was made and found as JSON", 0},
    {"seed", "N", "sample other calls; equal seeds sample equal calls", 0},
    {0},
};

static int adopt_run(const cli_args *args) {
  const char *path = cli_only_operand(args, "a YAML file");
  const char *host = cli_value_of(args, "host");
  const char *words[8];
  int count = 0;
  int64_t seed;
  if (path == NULL) return CLI_FAILED;
  if (host != NULL && strcmp(host, "torch") != 0)
    return cli_error("adopt: --host is '%s', expected torch", host);
  if (!cli_number_of(args, "seed", 0, INT32_MAX, 0, &seed)) return CLI_FAILED;
  if (!cli_is_file(path))
    return cli_error("%s: no such file; expected a YAML specification", path);
  words[count++] = path;
  if (cli_has(args, "check")) words[count++] = "--check";
  if (host != NULL) words[count++] = "--torch";
  if (cli_has(args, "json")) words[count++] = "--json";
  if (cli_value_of(args, "seed") != NULL) {
    words[count++] = "--seed";
    words[count++] = cli_value_of(args, "seed");
  }
  return cli_python_exec("opgraft._adopt.spec", (char *const *)(uintptr_t)words,
                         count);
}

const cli_command cli_command_adopt = {
    .name = "adopt",
    .summary = "make operators of a library's functions, and check them",
    .usage = "[OPTIONS] SPEC.yaml",
    .text =
        "Reads a specification that names a C library, a TVM-FFI library or a "
        "Python module\nand its functions, adopts them as operators, and "
        "prints what they are; in Python,\n`opgraft.adopt_spec` does the same. "
        "--check tries them as `opgraft check` tries a\nmodule's. Exit 0: "
        "clean, 1: findings, 2: the specification is wrong.",
    .examples =
        "  opgraft adopt zlib.yaml\n"
        "  opgraft adopt --check --json kernels.yaml > report.json",
    .options = options,
    .operand = CLI_OPERAND_YAML,
    .run = adopt_run,
};
