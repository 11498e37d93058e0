// SPDX-License-Identifier: Apache-2.0
// What depends on parameters and constants alone: it is computed anew when one
// of them was written, and else kept (exec/replay/steady.c). Counts such nodes.
//
// Invariant: nothing else writes the storage of a steady result, and no output
// lies in it.

#include "pass/pass.h"

// By value: roots that somebody overwrites or returns.
static void roots_mark(const opgraft_graph *graph, bool *is_used) {
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0)
      is_used[graph->values[graph->outputs[i].value].root] = true;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    const bool writes = og_op_is(node, OG_OP_WRITE);
    for (int32_t i = 0; writes && i < node->in_count; ++i)
      if (node->in[i] >= 0) is_used[graph->values[node->in[i]].root] = true;
    for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
      if (node->update[r] > 0 && node->in[node->update[r] - 1] >= 0)
        is_used[graph->values[node->in[node->update[r] - 1]].root] = true;
  }
}

static bool is_steady_value(const opgraft_graph *graph, const bool *is_used,
                            opgraft_value v) {
  if (v < 0) return true;
  const og_value *value = &graph->values[v];
  const og_value *root = &graph->values[value->root];
  switch (root->kind) {
    case OG_VALUE_INPUT:
      return (root->flags & OPGRAFT_INPUT_STATIC) != 0 && !is_used[value->root];
    case OG_VALUE_RESULT:
      return value->node >= 0 && graph->nodes[value->node].is_steady;
    default:
      return true;
  }
}

static bool is_steady_node(const opgraft_graph *graph, const bool *is_used,
                           const og_node *node) {
  enum { ORDERED = OG_OP_RANDOM | OG_OP_EFFECT | OG_OP_WRITE | OG_OP_FOREIGN };
  if (((og_ops[node->op].flags | node->flags) & ORDERED) != 0 ||
      node->update != NULL)
    return false;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (!is_steady_value(graph, is_used, node->in[i])) return false;
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0 && is_used[graph->values[node->out[r]].root])
      return false;
  return true;
}

static bool is_cpu(const opgraft_graph *graph) {
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (!og_device_equal(graph->values[v].device, og_cpu)) return false;
  return true;
}

static og_status steady_run(opgraft_graph *graph, int32_t *out_changes,
                            opgraft_error *error) {
  if ((graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0 ||
      !is_cpu(graph))
    return OG_OK;
  bool *is_used =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *is_used);
  if (is_used == NULL) return og_graph_no_memory(error);
  roots_mark(graph, is_used);
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    node->is_steady = is_steady_node(graph, is_used, node);
    *out_changes += node->is_steady && !og_op_is(node, OG_OP_VIEW);
  }
  og_free(is_used);
  return OG_OK;
}

const og_pass og_pass_steady = {
    .name = "steady", .needs = OG_FACT_FUNCTIONAL, .run = steady_run};
