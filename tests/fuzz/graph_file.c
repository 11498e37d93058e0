// SPDX-License-Identifier: Apache-2.0
// Graph files: any bytes give a graph or an error. The first byte says whether
// the checksum is made right, so that what lies behind it is reached.

#define _POSIX_C_SOURCE 200809L
#include <opgraft/graph_file.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/graph_seal.h"
#include "graph/print.h"
#include "plan/plan.h"

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(opgraft_graph *graph) {
  opgraft_error error;
  og_plan *plan;
  og_text text = {0};
  int64_t symbols[16];
  og_graph_print(graph, &text);
  if (text.failed) abort();
  og_text_reset(&text);
  const og_status status = opgraft_graph_finish(graph, NULL, &error);
  if (status == OG_INTERNAL) abort();
  if (status != OG_OK || graph->sizes.symbol_count > 16) return;
  for (int i = 0; i < 16; ++i) symbols[i] = 2 + i;
  if (og_plan_create(graph, symbols, 0, NULL, &plan, &error) == OG_OK)
    og_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  opgraft_error error;
  opgraft_graph *graph;
  if (size == 0) return 0;
  // A mapping begins at a page, so constants are aligned.
  char *bytes = aligned_alloc(64, (size / 64 + 1) * 64);
  if (bytes == NULL) abort();
  memcpy(bytes, data + 1, size - 1);
  if (data[0] % 2 == 0 && is_file(bytes, size - 1)) seal(bytes, size - 1);
  // Text alone is another fuzzer's.
  if (size > 1 && bytes[0] == '#' &&
      og_graph_read(bytes, size - 1, "m.og", &graph, &error) == OG_OK) {
    use(graph);
    opgraft_graph_release(graph);
  }
  free(bytes);
  return 0;
}
