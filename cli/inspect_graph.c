// SPDX-License-Identifier: Apache-2.0
// opgraft inspect of a graph file: its text, or a picture of it.

#include <stdlib.h>

#include "graph_file.h"
#include "inspect.h"

typedef size_t (*print_fn)(const opgraft_graph *graph, char *buffer,
                           size_t size);

static int graph_print(const opgraft_graph *graph, print_fn print) {
  const size_t length = print(graph, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  const bool is_whole = length > 0 && print(graph, text, length + 1) == length;
  if (is_whole) fputs(text, stdout);
  free(text);
  return is_whole ? CLI_OK : cli_error("not enough memory");
}

int cli_graph_inspect(const cli_args *args, const char *path) {
  static const char *const others[] = {"op", "shape", "why", "json"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (cli_has(args, others[i]))
      return cli_error("inspect: --%s is for modules, %s is a graph", others[i],
                       path);
  if (args->operand_count > 1)
    return cli_error("inspect: a graph takes no further operand, found '%s'",
                     args->operands[1]);
  opgraft_graph *graph = cli_graph_open(path, args);
  if (graph == NULL) return CLI_FAILED;
  opgraft_error error;
  int result = CLI_OK;
  if (cli_has(args, "passes") &&
      opgraft_graph_finish(graph, NULL, &error) != OG_OK)
    result = cli_library_error(&error);
  if (result == CLI_OK)
    result = graph_print(graph, cli_has(args, "dot") ? opgraft_graph_print_dot
                                                     : opgraft_graph_print);
  opgraft_graph_release(graph);
  return result;
}
