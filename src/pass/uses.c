// SPDX-License-Identifier: Apache-2.0
// Who reads each value of a graph, and what writes its storage.

#include "pass/uses.h"

#include <string.h>

static void use(og_uses *uses, opgraft_value value, int32_t node) {
  if (value < 0) return;
  uses->last[value] = node;
  ++uses->count[value];
}

static void uses_fill(og_uses *uses, const opgraft_graph *graph) {
  for (int32_t v = 0; v < graph->value_count; ++v) {
    uses->last[v] = uses->born[v] = uses->root_write[v] = OG_USE_NEVER;
    uses->count[v] = 0;
  }
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    // What copy_to overwrites is not read.
    for (int32_t i = og_op_is(node, OG_OP_WRITE); i < node->in_count; ++i)
      use(uses, node->in[i], n);
    for (int32_t r = 0; r < node->out_count; ++r) {
      const opgraft_value v = node->out[r];
      if (v < 0) continue;
      const bool is_view = og_op_is(node, OG_OP_VIEW);
      uses->born[v] = is_view ? uses->born[node->in[0]] : n;
      const opgraft_value root = graph->values[v].root;
      if (!is_view && root != v && uses->root_write[root] < 0)
        uses->root_write[root] = n;
    }
  }
  for (int32_t i = 0; i < graph->output_count; ++i) {
    const opgraft_value v = graph->outputs[i].value;
    use(uses, v, OG_USE_OUTPUT);
    if (v >= 0) uses->root_is_output[graph->values[v].root] = true;
  }
}

og_status og_uses_init(og_uses *uses, const opgraft_graph *graph,
                       opgraft_error *error) {
  const size_t count = (size_t)graph->value_count + 1;
  uses->last = og_alloc_zeroed(count, 4 * sizeof *uses->last);
  uses->root_is_output = og_alloc_zeroed(count, sizeof *uses->root_is_output);
  if (uses->last == NULL || uses->root_is_output == NULL) {
    og_uses_reset(uses);
    return og_graph_no_memory(error);
  }
  uses->count = uses->last + count;
  uses->born = uses->count + count;
  uses->root_write = uses->born + count;
  uses_fill(uses, graph);
  return OG_OK;
}

void og_uses_reset(og_uses *uses) {
  og_free(uses->last);
  og_free(uses->root_is_output);
  memset(uses, 0, sizeof *uses);
}
