// SPDX-License-Identifier: Apache-2.0
// View chains: a view of a view becomes a view of the first value, one that
// changes nothing goes. Counts the views changed.

#include "pass/pass.h"
#include "pass/rewrite.h"

// The value that a chain of views starts at, at the same version.
static opgraft_value chain_start(const opgraft_graph *graph,
                                 opgraft_value value) {
  for (;;) {
    const int32_t node = graph->values[value].node;
    if (node < 0 || !og_op_is(&graph->nodes[node], OG_OP_VIEW)) return value;
    value = graph->nodes[node].in[0];
  }
}

static og_status view_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  og_rewrite rewrite;
  OG_TRY(og_rewrite_init(&rewrite, graph, error));
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_VIEW)) continue;
    const opgraft_value start =
        chain_start(graph, og_rewrite_get(&rewrite, node->in[0]));
    const opgraft_value before = node->in[0];
    node->in[0] = start;
    if (og_value_same_place(&graph->values[node->out[0]],
                            &graph->values[start])) {
      og_rewrite_set(&rewrite, node->out[0], start);
      node->is_removed = true;
    }
    *out_changes += node->is_removed || start != before;
  }
  return og_rewrite_apply(&rewrite, error);
}

const og_pass og_pass_view = {.name = "view", .run = view_run};
