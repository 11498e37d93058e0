// SPDX-License-Identifier: Apache-2.0
// opgraft pack: a graph file with the packed forms of its weights.

#include "graph_file.h"
#include "target.h"

static const cli_option options[] = {
    {"out", "FILE", "the file to write (the graph's own)", 'o'},
    {"module", "FILE", "a module (or C file) with operators of the graph", 'm'},
    {"mode", "MODE", "of the runs: max-autotune, or reduce-overhead", 0},
    {"precision", "TYPE", "of the runs' contractions: f32, bf16, int8, int4",
     0},
    {"max-bytes", "N", "most memory for a plan (3/4 of the machine's)", 0},
    {"max-work", "N", "most operations of a plan, roughly (10^13)", 0},
    {0},
};

static int64_t packed_bytes(const opgraft_executable *executable) {
  cli_node *tree = cli_described(executable);
  const int64_t bytes = cli_node_int(tree, "packed_bytes", 0) +
                        cli_node_int(tree, "mapped_bytes", 0);
  cli_node_destroy(tree);
  return bytes;
}

static int executable_save(opgraft_executable *executable,
                           const cli_sizes *sizes, const char *path) {
  opgraft_error error;
  if (opgraft_executable_plan(executable, sizes->names, sizes->values,
                              sizes->count, &error) != OG_OK ||
      opgraft_executable_save(executable, path, &error) != OG_OK)
    return cli_library_error(&error);
  cli_note("%s: packed weights of %lld bytes", path,
           (long long)packed_bytes(executable));
  return CLI_OK;
}

static int graph_pack(const cli_args *args, const char *from, const char *to,
                      const opgraft_options *wanted, const cli_sizes *sizes) {
  opgraft_host host = {.struct_size = sizeof host, .log = cli_say};
  if (!cli_limits_read(args, &host)) return CLI_FAILED;
  opgraft_graph *graph = cli_graph_open(from, args);
  if (graph == NULL) return CLI_FAILED;
  opgraft_executable *executable = cli_executable_create(graph, wanted, &host);
  const int result =
      executable != NULL ? executable_save(executable, sizes, to) : CLI_FAILED;
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  return result;
}

static int pack_run(const cli_args *args) {
  opgraft_options wanted = {.struct_size = sizeof wanted};
  cli_sizes sizes = {0};
  if (args->operand_count == 0)
    return cli_error("pack: a graph file is missing; see opgraft help pack");
  const char *from = args->operands[0], *to = cli_value_of(args, "out");
  int result = CLI_FAILED;
  if (to != NULL && !cli_outputs_check(&to, 1, NULL, 0)) return CLI_FAILED;
  if (cli_mode_read(args, "max-autotune", &wanted.flags) &&
      cli_sizes_read(args, &sizes))
    result = graph_pack(args, from, to != NULL ? to : from, &wanted, &sizes);
  cli_sizes_reset(&sizes);
  return result;
}

const cli_command cli_command_pack = {
    .name = "pack",
    .summary = "put the packed forms of a graph's weights into its file",
    .usage = "m.og [NAME=SIZE...] [OPTIONS]",
    .text =
        "Packs the weights as a run on this machine does, for the sizes that "
        "are given,\nand writes them into the file, behind what it has: later "
        "runs map them instead\nof packing, and processes share them "
        "(docs/graph-file.md). A graph of fixed sizes\ntakes none.",
    .examples =
        "  opgraft pack m.og s0=128\n"
        "  opgraft pack m.og s0=128 --out packed.og",
    .options = options,
    .operand = CLI_OPERAND_GRAPH,
    .run = pack_run,
};
