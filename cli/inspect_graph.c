// SPDX-License-Identifier: Apache-2.0
// opgraft inspect of a graph file: its text, pictures of it and of its plan,
// which kernel runs each of its nodes, what is fused, or the code of that.

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

typedef int (*planned_fn)(const opgraft_executable *executable,
                          const cli_args *args);

static int rules_print(const opgraft_executable *executable,
                       const cli_args *args) {
  (void)args;
  char *text = cli_rules_text(executable);
  fputs(text, stdout);
  free(text);
  return CLI_OK;
}

static int code_print(const opgraft_executable *executable,
                      const cli_args *args) {
  const char *isa = cli_value_of(args, "isa");
  opgraft_error error;
  size_t length;
  if (opgraft_executable_code(executable, isa, NULL, 0, &length, &error) !=
      OG_OK)
    return cli_library_error(&error);
  char *text = cli_alloc(length + 1, 1);
  const og_status status = opgraft_executable_code(executable, isa, text,
                                                   length + 1, &length, &error);
  if (status == OG_OK) fputs(text, stdout);
  free(text);
  return status == OG_OK ? CLI_OK : cli_library_error(&error);
}

static int page_print(const opgraft_executable *executable,
                      const cli_args *args) {
  const size_t length = opgraft_executable_schedule(executable, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  (void)args;
  opgraft_executable_schedule(executable, text, length + 1);
  cli_page_print(text);
  free(text);
  return CLI_OK;
}

// A host that would run whatever the engine and the modules cannot: a plan is
// made for the page, which shows such nodes.
static og_status stranger_prepare(void *context, const opgraft_node_call *node,
                                  void **out_state, uint32_t *out_flags,
                                  opgraft_error *error) {
  (void)context, (void)out_state, (void)out_flags, (void)error;
  return node->op != NULL ? OG_UNSUPPORTED : OG_OK;
}

static og_status stranger_run(void *context, void *state,
                              const opgraft_node_call *node,
                              opgraft_error *error) {
  (void)context, (void)state, (void)node, (void)error;
  return OG_UNSUPPORTED;
}

static opgraft_executable *planned_create(opgraft_graph *graph,
                                          const opgraft_options *options,
                                          opgraft_host *host,
                                          planned_fn print) {
  opgraft_error error;
  opgraft_executable *executable;
  if (print != page_print) return cli_executable_create(graph, options, host);
  host->prepare = stranger_prepare;
  host->run = stranger_run;
  if (opgraft_graph_finish(graph, options, &error) == OG_OK &&
      opgraft_executable_create(graph, host, &executable, &error) == OG_OK)
    return executable;
  cli_library_error(&error);
  return NULL;
}

// A plan is made, and takes its arena, but nothing runs.
static int planned_print(opgraft_graph *graph, const cli_args *args,
                         const opgraft_options *options, planned_fn print) {
  cli_sizes s = {0};
  opgraft_error error;
  opgraft_host host = {.struct_size = sizeof host};
  opgraft_executable *executable = NULL;
  int result = CLI_FAILED;
  if (cli_sizes_read(args, &s) && cli_limits_read(args, &host) &&
      (executable = planned_create(graph, options, &host, print)) != NULL) {
    const og_status status =
        opgraft_executable_plan(executable, s.names, s.values, s.count, &error);
    result =
        status == OG_OK ? print(executable, args) : cli_library_error(&error);
  }
  opgraft_executable_release(executable);
  cli_sizes_reset(&s);
  return result;
}

// --- What is fused -----------------------------------------------------------

// "model.py:12: ", nothing where the node has no source.
static void source_print(const cli_node *node) {
  const char *file = cli_node_text(node, "file");
  if (file[0] != '\0')
    printf("%s:%lld: ", file, (long long)cli_node_int(node, "line", 0));
}

static void program_print(const cli_node *program) {
  const char *text = cli_node_text(program, "text");
  source_print(program);
  const int64_t nodes = cli_node_int(program, "nodes", 0);
  printf("a row program of %lld node%s\n", (long long)nodes, cli_plural(nodes));
  while (*text != '\0') {
    const size_t length = strcspn(text, ";");
    printf("  %.*s\n", (int)length, text);
    text += length;
    text += strspn(text, "; ");
  }
}

static void counts_print(long long programs, long long nodes,
                         long long unfused) {
  printf("%lld row program%s of %lld node%s, %lld node%s unfused\n", programs,
         cli_plural(programs), nodes, cli_plural(nodes), unfused,
         cli_plural(unfused));
}

static int fused_print(const opgraft_executable *executable) {
  const size_t length = opgraft_executable_describe(executable, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  size_t offset;
  opgraft_executable_describe(executable, text, length + 1);
  cli_node *tree = cli_json_parse(text, length, &offset);
  const cli_node *programs = cli_node_get(tree, "programs");
  const cli_node *unfused = cli_node_get(tree, "unfused");
  const bool is_whole = programs != NULL && unfused != NULL;
  for (const cli_node *p = is_whole ? programs->first : NULL; p; p = p->next)
    program_print(p);
  for (const cli_node *n = is_whole ? unfused->first : NULL; n; n = n->next) {
    source_print(n);
    printf("%s is unfused: %s\n", cli_node_text(n, "operator"),
           cli_node_text(n, "reason"));
  }
  if (is_whole)
    counts_print(cli_node_int(tree, "row_programs", 0),
                 cli_node_int(tree, "fused_nodes", 0), unfused->count);
  cli_node_destroy(tree);
  free(text);
  return is_whole ? CLI_OK : cli_error("not enough memory");
}

// Nothing is planned, so that sizes and a host are not needed.
static int fusion_print(opgraft_graph *graph, const opgraft_options *options) {
  opgraft_error error;
  const opgraft_host host = {.struct_size = sizeof host};
  opgraft_executable *executable;
  if (opgraft_graph_finish(graph, options, &error) != OG_OK ||
      opgraft_executable_create(graph, &host, &executable, &error) != OG_OK)
    return cli_library_error(&error);
  const int result = fused_print(executable);
  opgraft_executable_release(executable);
  return result;
}

// --- The command -------------------------------------------------------------

// Whether what is printed is of a plan, so that it takes sizes.
static bool has_sizes(const cli_args *args) {
  return cli_has(args, "why") || cli_has(args, "asm") || cli_has(args, "html");
}

static int shown(opgraft_graph *graph, const cli_args *args) {
  opgraft_error error;
  opgraft_options options = {.struct_size = sizeof options};
  const bool is_code = cli_has(args, "asm"), is_fusion = cli_has(args, "fused");
  if (!cli_mode_read(args, "reduce-overhead", &options.flags))
    return CLI_FAILED;
  if (is_code || is_fusion) options.flags |= OPGRAFT_OPTION_MAX_AUTOTUNE;
  if (has_sizes(args))
    return planned_print(graph, args, &options,
                         is_code                ? code_print
                         : cli_has(args, "why") ? rules_print
                                                : page_print);
  if (is_fusion) return fusion_print(graph, &options);
  if (cli_has(args, "passes") &&
      opgraft_graph_finish(graph, &options, &error) != OG_OK)
    return cli_library_error(&error);
  return graph_print(graph, cli_has(args, "dot") ? opgraft_graph_print_dot
                                                 : opgraft_graph_print);
}

// --passes and --dot may be given together, any other form alone.
static bool forms_check(const cli_args *args) {
  static const char *const forms[] = {"asm",  "fused",  "why",
                                      "html", "passes", "dot"};
  enum { FORMS = sizeof forms / sizeof *forms, ALONE = 4 };
  const char *first = NULL;
  for (int i = 0; i < FORMS; ++i) {
    if (!cli_has(args, forms[i])) continue;
    if (first != NULL && (i < ALONE || strcmp(first, "passes") != 0)) {
      cli_error("inspect: --%s and --%s exclude each other", first, forms[i]);
      return false;
    }
    first = forms[i];
  }
  if (cli_has(args, "isa") && !cli_has(args, "asm")) {
    cli_error("inspect: --isa is for --asm");
    return false;
  }
  if (args->operand_count == 1 || has_sizes(args)) return true;
  cli_error(
      "inspect: a graph takes sizes with --why, --asm or --html only, "
      "found '%s'",
      args->operands[1]);
  return false;
}

int cli_graph_inspect(const cli_args *args, const char *path) {
  static const char *const others[] = {"op", "shape", "json"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (cli_has(args, others[i]))
      return cli_error("inspect: --%s is for modules, %s is a graph", others[i],
                       path);
  if (!forms_check(args)) return CLI_FAILED;
  opgraft_graph *graph = cli_graph_open(path, args);
  if (graph == NULL) return CLI_FAILED;
  const int result = shown(graph, args);
  opgraft_graph_release(graph);
  return result;
}
