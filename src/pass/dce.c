// SPDX-License-Identifier: Apache-2.0
// Dead code: nodes whose results nobody reads. Counts the nodes removed.

#include "pass/pass.h"

static bool must_stay(const og_node *node) {
  const uint32_t stays = OG_OP_EFFECT | OG_OP_WRITE | OG_OP_RANDOM;
  return ((og_ops[node->op].flags | node->flags) & stays) != 0;
}

// A result in another's storage is read through that storage.
static bool is_read(const opgraft_graph *graph, const og_node *node,
                    const bool *is_needed) {
  for (int32_t r = 0; r < node->out_count; ++r) {
    const opgraft_value value = node->out[r];
    if (value < 0) continue;
    if (is_needed[value]) return true;
    if (!og_op_is(node, OG_OP_VIEW) && graph->values[value].root != value &&
        !og_result_is_part(graph, node, r))
      return true;
  }
  return false;
}

static og_status dce_run(opgraft_graph *graph, int32_t *out_changes,
                         opgraft_error *error) {
  bool *is_needed =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *is_needed);
  if (is_needed == NULL) return og_graph_no_memory(error);
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0) is_needed[graph->outputs[i].value] = true;
  for (int32_t n = graph->node_count - 1; n >= 0; --n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    if (!must_stay(node) && !is_read(graph, node, is_needed)) {
      node->is_removed = true;
      ++*out_changes;
      continue;
    }
    for (int32_t i = 0; i < node->in_count; ++i)
      if (node->in[i] >= 0) is_needed[node->in[i]] = true;
  }
  og_free(is_needed);
  return OG_OK;
}

const og_pass og_pass_dce = {.name = "dce", .run = dce_run};
