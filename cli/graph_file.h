// SPDX-License-Identifier: Apache-2.0
// Graph files on the command line: opened, given inputs, run once.

#ifndef OPGRAFT_CLI_GRAPH_FILE_H
#define OPGRAFT_CLI_GRAPH_FILE_H

#include <opgraft/graph_file.h>
#include <opgraft/npy.h>
#include <opgraft/plain.h>

#include "bind.h"

// --- Graphs ------------------------------------------------------------------

bool cli_is_graph(const char *path);
// Opens the file and links what every --module names. Prints and returns NULL.
opgraft_graph *cli_graph_open(const char *path, const cli_args *args);
// Finishes a graph and makes it ready to run. An operator that only a host can
// run is an error that names all of them. Prints and returns NULL.
opgraft_executable *cli_executable_create(opgraft_graph *graph,
                                          const opgraft_options *options,
                                          const opgraft_host *host);
// What opgraft_executable_describe says, to be destroyed; NULL: memory is
// short.
cli_node *cli_described(const opgraft_executable *executable);
// Which kernel runs which node (opgraft_executable_rules), to be freed.
char *cli_rules_text(const opgraft_executable *executable);

// The sizes that the operands behind the first give: "s0=128".
typedef struct cli_sizes {
  const char **names;
  int64_t *values;
  int32_t count;
} cli_sizes;

// Prints and returns false.
bool cli_sizes_read(const cli_args *args, cli_sizes *out);
void cli_sizes_reset(cli_sizes *sizes);
// --mode, `otherwise` where it is not given, and --precision, as
// OPGRAFT_OPTION_*. Prints and returns false.
bool cli_mode_read(const cli_args *args, const char *otherwise,
                   uint32_t *out_flags);
// What an executable has to say (opgraft_host.log), on standard error.
void cli_say(void *context, const char *text, int32_t is_progress);

// --- Tensors -----------------------------------------------------------------

// A tensor with its own sizes; `memory` is freed with it.
typedef struct cli_tensor {
  og_tensor tensor;
  int64_t shape[OPGRAFT_RANK_MAX];
  int64_t strides[OPGRAFT_RANK_MAX];
  void *memory;
} cli_tensor;

// A copy with these strides, NULL: row-major.
void cli_tensor_copy(const og_tensor *from, const int64_t *strides,
                     cli_tensor *out);

// How many numbers a tensor holds, row-major: complex elements count as two.
int64_t cli_tensor_count(const og_tensor *tensor);
double cli_tensor_number(const og_tensor *tensor, int64_t index);

// --- Inputs ------------------------------------------------------------------

// What --in gave, by input: a file's tensor, or an integer.
typedef struct cli_inputs {
  int32_t count;
  og_tensor **files;  // NULL for an integer
  int64_t *ints;
  // Copies with the strides that the graph wants: a call may write to them.
  cli_tensor *tensors;
  const og_tensor **in;
  int64_t max_bytes;  // that the copies may have together; 0: any
} cli_inputs;

// --in FILE takes the next input, NAME=FILE and NAME=NUMBER name one. Prints
// and returns false.
bool cli_inputs_read(const opgraft_graph *graph, const cli_args *args,
                     cli_inputs *out);
// Makes `in` fresh. Prints and returns false.
bool cli_inputs_fresh(const opgraft_graph *graph, cli_inputs *inputs);
void cli_inputs_reset(cli_inputs *inputs);

// --- A call ------------------------------------------------------------------

// A call that has begun, with memory for what it writes.
typedef struct cli_replay {
  opgraft_call call;
  void **storages;
} cli_replay;

// Prints and returns false.
bool cli_replay_begin(opgraft_executable *executable, const cli_inputs *inputs,
                      cli_replay *out);
void cli_replay_end(cli_replay *run);
// Output `index` as a tensor over the call's memory; an integer becomes an i64
// without dims over *number. False for an output that is None.
bool cli_replay_output(const cli_replay *run, const cli_inputs *inputs,
                       int32_t index, int64_t *number, og_tensor *out);

// --- Plain runs and limits (plain.c) -----------------------------------------

// --max-bytes and --max-work, else three quarters of the machine's memory and
// 10^13 operations, into the host. Prints and returns false.
bool cli_limits_read(const cli_args *args, opgraft_host *host);
// Prints and returns NULL.
opgraft_plain *cli_plain_run(const opgraft_graph *graph,
                             const cli_inputs *inputs,
                             const opgraft_host *host);
// As cli_replay_output.
bool cli_plain_output(const opgraft_plain *plain, int32_t index,
                      int64_t *number, og_tensor *out);

// The whole command `opgraft run --bisect`.
int cli_bisect(const cli_args *args, const char *path);

#endif  // OPGRAFT_CLI_GRAPH_FILE_H
