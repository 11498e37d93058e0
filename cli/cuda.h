// SPDX-License-Identifier: Apache-2.0
// CUDA code that `opgraft build` embeds in a module.

#ifndef OPGRAFT_CLI_CUDA_H
#define OPGRAFT_CLI_CUDA_H

#include <stdbool.h>

// Whether a file's name ends as one of CUDA code: .cu, .ptx, .cubin, .fatbin.
bool cli_is_cuda(const char *path);

// A C file that defines the code object of `path`, and the file that it reads,
// both temporaries for the caller to remove. `data` is NULL where `path` itself
// is read.
typedef struct cli_cuda_files {
  char *source;
  char *data;
} cli_cuda_files;

// `nvcc` compiles a .cu file to a fatbin; with NULL it is embedded as source,
// with the files that it includes put into it. Prints what is wrong and returns
// false.
bool cli_cuda_embed(const char *path, const char *nvcc, bool is_verbose,
                    cli_cuda_files *out_files);
// The linker's words for a module with CUDA code, ended by NULL, each and the
// list the caller's; NULL, and what is wrong printed, where the library is
// missing.
char **cli_cuda_link(void);

#endif  // OPGRAFT_CLI_CUDA_H
