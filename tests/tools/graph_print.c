// SPDX-License-Identifier: Apache-2.0
// graph_print [--dot]: reads a graph, prints it, and checks that what it
// printed reads back to the same text.

#include <opgraft/graph.h>
#include <string.h>

#include "tools/tool.h"

static char *print(const opgraft_graph *graph, bool dot) {
  const size_t length = dot ? opgraft_graph_print_dot(graph, NULL, 0)
                            : opgraft_graph_print(graph, NULL, 0);
  char *text = length > 0 ? malloc(length + 1) : NULL;
  if (text == NULL) return NULL;
  const size_t again = dot ? opgraft_graph_print_dot(graph, text, length + 1)
                           : opgraft_graph_print(graph, text, length + 1);
  if (again == length) return text;
  free(text);
  return NULL;
}

static int round_trip(const char *text) {
  opgraft_error error;
  opgraft_graph *graph;
  if (opgraft_graph_parse(text, strlen(text), &graph, &error) != OG_OK) {
    printf("does not read back: %s\n", error.text);
    return 1;
  }
  char *again = print(graph, false);
  const bool same = again != NULL && strcmp(again, text) == 0;
  if (!same) printf("reads back as another text:\n%s", again ? again : "");
  free(again);
  opgraft_graph_release(graph);
  return same ? 0 : 1;
}

static int work(bool dot) {
  opgraft_error error;
  opgraft_graph *graph;
  size_t length;
  char *input = tool_read_input(&length);
  if (input == NULL) return 1;
  const og_status status = opgraft_graph_parse(input, length, &graph, &error);
  free(input);
  if (status != OG_OK) {
    printf("error: %s\n", error.text);
    return 1;
  }
  char *text = print(graph, dot);
  opgraft_graph_release(graph);
  if (text == NULL) return 1;
  fputs(text, stdout);
  const int result = dot ? 0 : round_trip(text);
  free(text);
  return result;
}

int main(int argc, char **argv) {
  tool_begin();
  return tool_end(work(argc > 1 && strcmp(argv[1], "--dot") == 0));
}
