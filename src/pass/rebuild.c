// SPDX-License-Identifier: Apache-2.0
// A new list of nodes in place of a graph's.

#include "pass/rebuild.h"

#include <string.h>

og_status og_rebuild_put(og_rebuild *list, const og_node *node) {
  if (!og_array_reserve((void **)&list->nodes, list->count + 1, &list->capacity,
                        sizeof *list->nodes))
    return og_graph_no_memory(list->error);
  list->nodes[list->count++] = *node;
  return OG_OK;
}

og_status og_rebuild_node(og_rebuild *list, const og_node *like, int32_t op,
                          const opgraft_value *in, int32_t in_count,
                          const opgraft_value *out, int32_t out_count,
                          const opgraft_arg *attrs, int32_t attr_count) {
  og_arena *arena = &list->graph->arena;
  opgraft_value *values =
      og_arena_array(arena, (size_t)(in_count + out_count) + 1, sizeof *values);
  opgraft_arg *own = og_arena_array(arena, (size_t)attr_count + 1, sizeof *own);
  if (values == NULL || own == NULL) return og_graph_no_memory(list->error);
  if (in_count > 0) memcpy(values, in, (size_t)in_count * sizeof *values);
  memcpy(values + in_count, out, (size_t)out_count * sizeof *values);
  if (attr_count > 0) memcpy(own, attrs, (size_t)attr_count * sizeof *own);
  const og_node node = {.op = op,
                        .in_count = in_count,
                        .out_count = out_count,
                        .in = values,
                        .out = values + in_count,
                        .attrs = attr_count > 0 ? own : NULL,
                        .file = like->file,
                        .line = like->line};
  return og_rebuild_put(list, &node);
}

og_status og_rebuild_view(og_rebuild *list, const og_node *like,
                          opgraft_value of, const og_view_layout *layout,
                          opgraft_value *out) {
  const og_value base = list->graph->values[of];
  OG_TRY(og_graph_add_value(list->graph, OG_VALUE_RESULT, base.dtype,
                            base.device, layout->ndim, layout->shape,
                            layout->strides, out, list->error));
  list->graph->values[*out].root = base.root;
  list->graph->values[*out].offset = layout->offset;
  return og_rebuild_node(list, like, OG_IR_view, &of, 1, out, 1, NULL, 0);
}

og_status og_rebuild_channels(og_rebuild *list, const og_node *like,
                              opgraft_value vector, int32_t ndim,
                              opgraft_value *out) {
  const og_value *v = &list->graph->values[vector];
  og_view_layout l = {.ndim = ndim - 1, .offset = v->offset};
  l.shape[0] = v->shape[0];
  l.strides[0] = v->strides[0];
  for (int32_t d = 1; d < l.ndim; ++d) l.shape[d] = l.strides[d] = OG_SIZE_ONE;
  return og_rebuild_view(list, like, vector, &l, out);
}

og_status og_rebuild_pointwise(og_rebuild *list, const og_node *like,
                               int32_t op, opgraft_value a, opgraft_value b,
                               opgraft_value shape, opgraft_value *out) {
  const og_value v = list->graph->values[shape];
  const og_dtype single = {OG_CODE_FLOAT, 32, 1};
  const opgraft_value in[2] = {a, b};
  OG_TRY(og_graph_add_value(list->graph, OG_VALUE_RESULT, single, v.device,
                            v.ndim, v.shape, NULL, out, list->error));
  return og_rebuild_node(list, like, op, in, b < 0 ? 1 : 2, out, 1, NULL, 0);
}

// Sets values' node and result to places in the new list.
static void values_renumber(og_rebuild *list, bool are_removed) {
  for (int32_t n = 0; n < list->count; ++n) {
    const og_node *node = &list->nodes[n];
    if (node->is_removed != are_removed) continue;
    for (int32_t r = 0; r < node->out_count; ++r) {
      if (node->out[r] < 0) continue;
      list->graph->values[node->out[r]].node = n;
      list->graph->values[node->out[r]].result = r;
    }
  }
}

void og_rebuild_finish(og_rebuild *list) {
  opgraft_graph *graph = list->graph;
  values_renumber(list, true);
  values_renumber(list, false);
  og_free(graph->nodes);
  graph->nodes = list->nodes;
  graph->node_count = list->count;
  graph->node_capacity = list->capacity;
  list->nodes = NULL;
}

void og_rebuild_reset(og_rebuild *list) { og_free(list->nodes); }

og_status og_rebuild_each(opgraft_graph *graph, og_rebuild_fn put,
                          int32_t *out_changes, opgraft_error *error) {
  og_rebuild list = {.graph = graph, .error = error};
  og_status status = OG_OK;
  if ((graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0) return OG_OK;
  for (int32_t n = 0; n < graph->node_count && status == OG_OK; ++n) {
    const og_node node = graph->nodes[n];
    status = put(&list, &node, out_changes);
  }
  if (status == OG_OK && *out_changes > 0) og_rebuild_finish(&list);
  og_rebuild_reset(&list);
  return status;
}
