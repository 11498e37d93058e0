// SPDX-License-Identifier: Apache-2.0
// Modules for a graph that was read: its foreign nodes get their operators.

#include <opgraft/graph_file.h>

#include "import/import.h"

og_status opgraft_graph_link(opgraft_graph *graph, opgraft_module *module,
                             opgraft_error *error) {
  if (graph->is_finished)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s is finished; link modules before that",
                        graph->name);
  OG_TRY(opgraft_graph_add_module(graph, module, error));
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_FOREIGN)) continue;
    // The words are the graph's own, so they may change.
    og_foreign *foreign = (og_foreign *)(uintptr_t)node->foreign;
    if (foreign->module_op == NULL) og_foreign_link(graph, node, foreign);
  }
  return OG_OK;
}
