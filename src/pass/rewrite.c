// SPDX-License-Identifier: Apache-2.0
// Replaces values by others, everywhere at once.

#include "pass/rewrite.h"

og_status og_rewrite_init(og_rewrite *rewrite, opgraft_graph *graph,
                          opgraft_error *error) {
  rewrite->graph = graph;
  rewrite->to =
      og_alloc((size_t)(graph->value_count + 1) * sizeof *rewrite->to);
  if (rewrite->to == NULL) return og_graph_no_memory(error);
  for (int32_t v = 0; v < graph->value_count; ++v) rewrite->to[v] = v;
  return OG_OK;
}

opgraft_value og_rewrite_get(const og_rewrite *rewrite, opgraft_value value) {
  while (value >= 0 && rewrite->to[value] != value) value = rewrite->to[value];
  return value;
}

void og_rewrite_set(og_rewrite *rewrite, opgraft_value from, opgraft_value to) {
  rewrite->to[from] = og_rewrite_get(rewrite, to);
}

// A value whose root was replaced lies in the new root's storage.
static og_status value_move(og_rewrite *rewrite, og_value *value,
                            opgraft_error *error) {
  const opgraft_value base = og_rewrite_get(rewrite, value->root);
  if (base == value->root) return OG_OK;
  const og_value *target = &rewrite->graph->values[base];
  OG_TRY(og_size_make(&rewrite->graph->sizes, OG_SIZE_ADD, value->offset,
                      target->offset, &value->offset, error));
  value->root = target->root;
  return OG_OK;
}

static og_status rewrite_nodes(og_rewrite *rewrite, opgraft_error *error) {
  opgraft_graph *graph = rewrite->graph;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    for (int32_t i = 0; i < node->in_count; ++i)
      node->in[i] = og_rewrite_get(rewrite, node->in[i]);
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0)
        OG_TRY(value_move(rewrite, &graph->values[node->out[r]], error));
  }
  for (int32_t i = 0; i < graph->output_count; ++i)
    graph->outputs[i].value = og_rewrite_get(rewrite, graph->outputs[i].value);
  return OG_OK;
}

og_status og_rewrite_apply(og_rewrite *rewrite, opgraft_error *error) {
  const og_status status = rewrite_nodes(rewrite, error);
  og_free(rewrite->to);
  rewrite->to = NULL;
  return status;
}
