// SPDX-License-Identifier: Apache-2.0
// opgraft build: C files into one module.

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    {"output", "FILE.so", "what to write; the first C file's name with .so",
     'o'},
    {"hosts", "NAMES", "serve these as well, such as torch,jax,onnxruntime", 0},
    {"cc", "CC", "the compiler; else $CC, cc, gcc, clang", 0},
    {"nvcc", "NVCC", "compile .cu files with it, such as \"nvcc -arch=sm_90\"",
     0},
    {"optimize", "LEVEL", "0, 1, 2, 3, s or fast; 3, or 0 with --debug", 'O'},
    {"debug", NULL, "keep names and lines for a debugger", 'g'},
    {"no-load", NULL, "do not load the result to check its declarations", 0},
    {"verbose", NULL, "print the compiler's command", 'v'},
    {0},
};

static bool level_check(const char *level) {
  static const char *const levels[] = {"0", "1", "2", "3",
                                       "s", "g", "z", "fast"};
  if (level == NULL) return true;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; ++i)
    if (strcmp(level, levels[i]) == 0) return true;
  cli_error("build: --optimize is '%s', expected 0, 1, 2, 3, s, g, z or fast",
            level);
  return false;
}

static int build_run(const cli_args *args) {
  if (args->operand_count == 0)
    return cli_error(
        "build: no file is given, expected a C file; `opgraft help build` "
        "shows how");
  if (!level_check(cli_value_of(args, "optimize"))) return CLI_FAILED;
  const cli_host *hosts[CLI_HOSTS_MAX + 1];
  if (!cli_hosts_parse(cli_value_of(args, "hosts"), hosts)) return CLI_FAILED;
  const char *wanted = cli_value_of(args, "output");
  char *output = wanted != NULL ? cli_format("%s", wanted)
                                : cli_with_suffix(args->operands[0], ".so");
  const cli_compile_job job = {
      .sources = args->operands,
      .source_count = args->operand_count,
      .output = output,
      .compiler = cli_value_of(args, "cc"),
      .nvcc = cli_value_of(args, "nvcc"),
      .optimize = cli_value_of(args, "optimize"),
      .flags = args->rest,
      .flag_count = args->rest_count,
      .hosts = hosts,
      .is_debug = cli_has(args, "debug"),
      .is_verbose = cli_has(args, "verbose"),
      // A wrong declaration is then found now and not at its first use.
      .is_loaded = !cli_has(args, "no-load"),
  };
  const int result = cli_compile(&job);
  free(output);
  return result;
}

const cli_command cli_command_build = {
    .name = "build",
    .summary = "compile C files into a module",
    .usage =
        "FILE.c... [FILE.cu...] [-o FILE.so] [OPTIONS] [-- COMPILER-FLAGS]",
    .text =
        "Compiles operator files into one shared object that links to libc "
        "and libm only,\nwith warnings on, and loads it once, so that a "
        "wrong declaration is an error here.\nThe output is replaced when "
        "the compiler has succeeded; a process that has the old\none "
        "loaded keeps it. Exit 1: the compiler, or a declaration, says "
        "no.\n\n--hosts links what further hosts look up by name into the "
        "file (docs/hosts.md);\nPyTorch reads any module.\n\nA .cu "
        "file is embedded as source, with what it includes, and compiled by "
        "NVRTC at its\nfirst launch; --nvcc compiles it now. A .ptx, .cubin "
        "or .fatbin is embedded as it is\n(opgraft/cuda.h).",
    .examples =
        "  opgraft build norms.c\n"
        "  opgraft build norms.c rope.c -o norms.so\n"
        "  opgraft build norms.c --cc clang -g -v\n"
        "  opgraft build scale.c scale.cu\n"
        "  opgraft build norms.c --hosts torch,jax,onnxruntime\n"
        "  opgraft build norms.c -- -march=native -DFAST",
    .options = options,
    .operand = CLI_OPERAND_C,
    .run = build_run,
};
