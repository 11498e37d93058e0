// SPDX-License-Identifier: Apache-2.0
// opgraft inspect of a graph file: its text, a picture of it, or which kernel
// runs each of its nodes.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

// --- Which kernel runs each node ---------------------------------------------

// The sizes that the operands give: "s0=128".
typedef struct sizes {
  const char **names;
  int64_t *values;
  int32_t count;
} sizes;

static void sizes_reset(sizes *s) {
  for (int32_t i = 0; i < s->count; ++i) free((char *)(uintptr_t)s->names[i]);
  free(s->names);
  free(s->values);
}

static bool size_read(const char *word, sizes *s) {
  const char *equals = strchr(word, '=');
  char *end = NULL;
  errno = 0;
  const long long number = equals != NULL ? strtoll(equals + 1, &end, 10) : 0;
  if (equals == NULL || equals == word || errno != 0 || end == equals + 1 ||
      *end != '\0' || number < 0) {
    cli_error("inspect: found '%s', wanted a size of the graph, such as s0=128",
              word);
    return false;
  }
  s->names[s->count] = cli_format("%.*s", (int)(equals - word), word);
  s->values[s->count++] = number;
  return true;
}

static bool sizes_read(const cli_args *args, sizes *s) {
  const size_t most = (size_t)args->operand_count;
  *s = (sizes){.names = cli_alloc(most, sizeof *s->names),
               .values = cli_alloc(most, sizeof *s->values)};
  for (int32_t i = 1; i < args->operand_count; ++i)
    if (!size_read(args->operands[i], s)) return false;
  return true;
}

static int rules_print(opgraft_executable *executable, const sizes *s) {
  opgraft_error error;
  if (opgraft_executable_plan(executable, s->names, s->values, s->count,
                              &error) != OG_OK)
    return cli_library_error(&error);
  char *text = cli_rules_text(executable);
  fputs(text, stdout);
  free(text);
  return CLI_OK;
}

// A plan is made, and takes its arena, but nothing runs.
static int why_print(opgraft_graph *graph, const cli_args *args) {
  sizes s = {0};
  opgraft_host host = {.struct_size = sizeof host};
  opgraft_executable *executable = NULL;
  int result = CLI_FAILED;
  if (sizes_read(args, &s) && cli_limits_read(args, &host) &&
      (executable = cli_executable_create(graph, NULL, &host)) != NULL)
    result = rules_print(executable, &s);
  opgraft_executable_release(executable);
  sizes_reset(&s);
  return result;
}

// --- The command -------------------------------------------------------------

static int shown(opgraft_graph *graph, const cli_args *args) {
  opgraft_error error;
  if (cli_has(args, "why")) return why_print(graph, args);
  if (cli_has(args, "passes") &&
      opgraft_graph_finish(graph, NULL, &error) != OG_OK)
    return cli_library_error(&error);
  return graph_print(graph, cli_has(args, "dot") ? opgraft_graph_print_dot
                                                 : opgraft_graph_print);
}

int cli_graph_inspect(const cli_args *args, const char *path) {
  static const char *const others[] = {"op", "shape", "json"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (cli_has(args, others[i]))
      return cli_error("inspect: --%s is for modules, %s is a graph", others[i],
                       path);
  const bool is_why = cli_has(args, "why");
  if (is_why && (cli_has(args, "dot") || cli_has(args, "passes")))
    return cli_error("inspect: --why and --%s exclude each other",
                     cli_has(args, "dot") ? "dot" : "passes");
  if (args->operand_count > 1 && !is_why)
    return cli_error("inspect: a graph takes sizes with --why only, found '%s'",
                     args->operands[1]);
  opgraft_graph *graph = cli_graph_open(path, args);
  if (graph == NULL) return CLI_FAILED;
  const int result = shown(graph, args);
  opgraft_graph_release(graph);
  return result;
}
