// SPDX-License-Identifier: Apache-2.0
// Contractions and convolutions whose result the next node reads element by
// element.

#include "plan/join.h"

#include "graph/fused.h"

// The node whose result a value is, or a view of; -1 where there is no such
// node.
static int32_t contraction_of(const opgraft_graph *graph, opgraft_value value) {
  if (value < 0) return -1;
  const og_value *root = &graph->values[graph->values[value].root];
  return root->kind == OG_VALUE_RESULT && root->node >= 0 &&
                 og_has_tiles(&graph->nodes[root->node])
             ? root->node
             : -1;
}

int32_t og_contraction_read_by(const opgraft_graph *graph,
                               const og_node *node) {
  for (int32_t i = 0; i < node->in_count; ++i) {
    const int32_t found = contraction_of(graph, node->in[i]);
    if (found >= 0) return found;
  }
  return -1;
}

// Whether a lane or a section begins at a position of the order; `section` is
// the first that may, and goes on with the positions.
static bool is_cut(const og_lanes *lanes, int32_t *section, int32_t position) {
  while (*section < lanes->section_count &&
         og_section_end(&lanes->sections[*section]) < position)
    ++*section;
  if (*section == lanes->section_count) return false;
  const og_section *at = &lanes->sections[*section];
  bool found = at->first == position;
  for (int32_t l = 0; l < at->lane_count; ++l) found |= at->end[l] == position;
  return found;
}

// How many operands, and outputs of the graph, lie in each root.
static void readers_count(const opgraft_graph *graph, const og_lanes *lanes,
                          int32_t *readers) {
  for (int32_t s = 0; s < lanes->count; ++s) {
    const og_node *node = &graph->nodes[lanes->order[s]];
    for (int32_t i = 0; i < node->in_count; ++i)
      if (node->in[i] >= 0) ++readers[graph->values[node->in[i]].root];
  }
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0)
      ++readers[graph->values[graph->outputs[i].value].root];
}

static int32_t reads_of(const opgraft_graph *graph, const og_node *node,
                        opgraft_value root) {
  int32_t count = 0;
  for (int32_t i = 0; i < node->in_count; ++i)
    count += node->in[i] >= 0 && graph->values[node->in[i]].root == root;
  return count;
}

// Whether the two, of which the second runs right behind the first, may be one.
static og_status pair_look(const opgraft_graph *graph, const og_node *first,
                           const og_node *second, const int32_t *readers,
                           og_join *out, opgraft_error *error) {
  if (!og_has_tiles(first) || second->op != OG_IR_fused ||
      first->is_steady != second->is_steady)
    return OG_OK;
  const opgraft_value root = first->out[0];
  if (root < 0 || graph->values[root].root != root ||
      reads_of(graph, second, root) != 1)
    return OG_OK;
  OG_TRY(og_fused_check(graph, second, &out->is_joined, error));
  out->keeps_result = readers[root] > 1;
  return OG_OK;
}

og_status og_joins_find(const opgraft_graph *graph, const og_lanes *lanes,
                        og_arena *memory, og_join **out_joins,
                        opgraft_error *error) {
  og_join *joins =
      og_arena_array(memory, (size_t)graph->node_count + 1, sizeof *joins);
  int32_t *readers =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *readers);
  og_status status = OG_OK;
  int32_t section = 0;
  *out_joins = joins;
  if (joins == NULL || readers == NULL) {
    og_free(readers);
    return og_graph_no_memory(error);
  }
  readers_count(graph, lanes, readers);
  for (int32_t s = 1; status == OG_OK && s < lanes->count; ++s) {
    const int32_t first = lanes->order[s - 1], second = lanes->order[s];
    if (is_cut(lanes, &section, s)) continue;
    joins[second].contraction = first;
    status = pair_look(graph, &graph->nodes[first], &graph->nodes[second],
                       readers, &joins[second], error);
  }
  og_free(readers);
  return status;
}
