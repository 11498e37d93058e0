// SPDX-License-Identifier: Apache-2.0
// The graph reader: any bytes give a graph or an error; a graph prints to text
// that reads back as the same text, and passes and planning do not break on
// it.

#include <opgraft/graph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/print.h"
#include "plan/plan.h"

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void plan_once(const opgraft_graph *graph) {
  opgraft_error error;
  og_plan *plan;
  int64_t symbols[16];
  if (graph->sizes.symbol_count > 16) return;
  for (int i = 0; i < 16; ++i) symbols[i] = 2 + i;
  if (og_plan_create(graph, symbols, 0, NULL, &plan, &error) == OG_OK)
    og_plan_destroy(plan);
}

// What is printed is read and printed again, and is the same text.
static void round_trip(const opgraft_graph *graph) {
  opgraft_error error;
  opgraft_graph *again;
  og_text text = {0}, second = {0};
  og_graph_print(graph, &text);
  if (text.failed) abort();
  if (opgraft_graph_parse(text.data, text.length, &again, &error) != OG_OK) {
    fprintf(stderr, "does not read back: %s\n%s", error.text, text.data);
    abort();
  }
  og_graph_print(again, &second);
  if (second.failed || strcmp(text.data, second.data) != 0) {
    fprintf(stderr, "%s\nreads back as\n%s", text.data, second.data);
    abort();
  }
  opgraft_graph_release(again);
  og_text_reset(&text);
  og_text_reset(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  opgraft_error error;
  opgraft_graph *graph;
  if (opgraft_graph_parse((const char *)data, size, &graph, &error) != OG_OK)
    return 0;
  round_trip(graph);
  const og_status status = opgraft_graph_finish(graph, NULL, &error);
  if (status == OG_INTERNAL) abort();
  if (status == OG_OK) plan_once(graph);
  opgraft_graph_release(graph);
  return 0;
}
