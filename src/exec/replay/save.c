// SPDX-License-Identifier: Apache-2.0
// The file of an executable's graph, with the weights that it packed.

#include <opgraft/graph_file.h>
#include <stdlib.h>

#include "exec/fast/packs.h"
#include "graph/file.h"

static int by_key(const void *a, const void *b) {
  return og_prepacked_compare(a, b);
}

// Sorted. NULL without memory.
static og_prepacked *packs_take(opgraft_executable *executable,
                                int32_t *out_count) {
  pthread_mutex_lock(&executable->mutex);
  *out_count = og_packs_list(executable, NULL);
  og_prepacked *list = og_alloc_zeroed((size_t)*out_count + 1, sizeof *list);
  if (list != NULL) og_packs_list(executable, list);
  pthread_mutex_unlock(&executable->mutex);
  if (list != NULL) qsort(list, (size_t)*out_count, sizeof *list, by_key);
  return list;
}

og_status opgraft_executable_save(opgraft_executable *executable,
                                  const char *path, opgraft_error *error) {
  opgraft_graph *graph = executable->graph;
  if (graph->file_text == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s is not of a graph file with data, expected "
                        "one that opgraft_graph_save wrote",
                        graph->name);
  OG_TRY(og_blocks_check(&graph->blocks, graph->blocks.data,
                         graph->blocks.size_bytes, error));
  const og_file_piece data = {0, graph->data, graph->data_bytes};
  og_file_parts parts = {.text = graph->file_text,
                         .text_bytes = graph->file_text_bytes,
                         .pieces = &data,
                         .piece_count = 1,
                         .data_bytes = (int64_t)graph->data_bytes};
  og_prepacked *packed = packs_take(executable, &parts.packed_count);
  if (packed == NULL) return og_graph_no_memory(error);
  parts.packed = packed;
  const og_status status = og_graph_file_write(&parts, path, error);
  og_free(packed);
  return status;
}
