// SPDX-License-Identifier: Apache-2.0
// Builds a graph while a host walks its own: what nodes stand for, and the
// arguments and results of one operator at a time.
//
// Invariants: lists of `nodes` and of the trees lie in the builder's arena, and
// those of a node do not change once it is set; in the tree of results a VALUE
// is a position among `infos` until the operator is added.

#include "import/builder.h"

#include <string.h>

#include "base/sized.h"

enum { NODES_MAX = 1 << 24 };

// --- Errors ------------------------------------------------------------------

og_status og_builder_wrong(const opgraft_builder *b, og_status code,
                           const char *what, opgraft_error *error) {
  if (!b->is_begun)
    return og_error_set(error, code, NULL, NULL, "graph %s: %s", b->graph->name,
                        what);
  if (b->record.file == NULL)
    return og_error_set(error, code, b->record.name, NULL, "%s: %s",
                        b->record.name, what);
  return og_error_set(error, code, b->record.name, NULL, "%s (%s:%d): %s",
                      b->record.name, b->record.file, (int)b->record.line,
                      what);
}

og_status og_builder_ready(const opgraft_builder *b, opgraft_error *error) {
  if (b->is_begun) return OG_OK;
  return og_builder_wrong(
      b, OG_INVALID, "no operator was begun; call opgraft_builder_begin first",
      error);
}

// --- Life --------------------------------------------------------------------

og_status opgraft_builder_create(opgraft_graph *graph,
                                 opgraft_builder **out_builder,
                                 opgraft_error *error) {
  *out_builder = NULL;
  if (graph->is_finished)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s is finished; nothing can be added to it",
                        graph->name);
  opgraft_builder *b = og_alloc_zeroed(1, sizeof *b);
  if (b == NULL) return og_graph_no_memory(error);
  opgraft_graph_retain(graph);
  b->graph = graph;
  *out_builder = b;
  return OG_OK;
}

void opgraft_builder_destroy(opgraft_builder *b) {
  if (b == NULL) return;
  opgraft_graph_release(b->graph);
  og_free(b->nodes);
  og_free(b->args.items);
  og_free(b->results.items);
  og_free(b->infos);
  og_free(b->bases);
  og_free(b->written);
  og_arena_destroy(&b->memory);
  og_free(b);
}

// --- Copies ------------------------------------------------------------------

static og_status text_copy(opgraft_builder *b, const char *text,
                           const char **out, opgraft_error *error) {
  *out = NULL;
  if (text == NULL) return OG_OK;
  *out = og_arena_strndup(&b->memory, text, strlen(text));
  return *out != NULL ? OG_OK : og_graph_no_memory(error);
}

static og_status arg_copy(opgraft_builder *b, const opgraft_arg *from,
                          opgraft_arg *to, int depth, opgraft_error *error) {
  const char *fault = og_arg_fault(b->graph, from, depth);
  if (fault == NULL && from->written != 0)
    fault = "is written: that is for opgraft_builder_add_written_arg";
  if (fault != NULL)
    return og_error_set(error, OG_INVALID, NULL, from->name,
                        "graph %s: an argument %s", b->graph->name, fault);
  *to = *from;
  OG_TRY(text_copy(b, from->name, &to->name, error));
  if (from->kind == OPGRAFT_ARG_STR || from->kind == OPGRAFT_ARG_OTHER)
    return text_copy(b, from->s, &to->s, error);
  if (from->kind != OPGRAFT_ARG_LIST) return OG_OK;
  opgraft_arg *list =
      og_arena_array(&b->memory, (size_t)from->count + 1, sizeof *list);
  if (list == NULL) return og_graph_no_memory(error);
  for (int32_t i = 0; i < from->count; ++i)
    OG_TRY(arg_copy(b, &from->list[i], &list[i], depth + 1, error));
  to->list = list;
  return OG_OK;
}

static og_status sizes_copy(opgraft_builder *b, const opgraft_size *from,
                            int32_t count, const opgraft_size **out,
                            opgraft_error *error) {
  *out = NULL;
  if (from == NULL) return OG_OK;
  opgraft_size *sizes =
      og_arena_array(&b->memory, (size_t)count + 1, sizeof *sizes);
  if (sizes == NULL) return og_graph_no_memory(error);
  for (int32_t d = 0; d < count; ++d) {
    sizes[d] = from[d];
    if (from[d] < 0 || from[d] >= b->graph->sizes.count)
      return og_builder_wrong(
          b, OG_INVALID, "a tensor has a size that is not in the graph", error);
  }
  *out = sizes;
  return OG_OK;
}

og_status og_builder_info(opgraft_builder *b, const opgraft_value_info *from,
                          opgraft_value_info *out, opgraft_error *error) {
  OG_TRY(og_value_info_copy(from, out, error));
  if (out->ndim < -1 || out->ndim > OPGRAFT_RANK_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s: a tensor has %d dims, at most %d are "
                        "possible",
                        b->graph->name, (int)out->ndim, (int)OPGRAFT_RANK_MAX);
  const int32_t rank = out->ndim > 0 ? out->ndim : 0;
  OG_TRY(sizes_copy(b, out->shape, rank, &out->shape, error));
  return sizes_copy(b, out->strides, rank, &out->strides, error);
}

// --- Trees -------------------------------------------------------------------

og_status og_tree_add(opgraft_builder *b, og_tree *tree, const opgraft_arg *arg,
                      opgraft_error *error) {
  if (tree->depth > 0 && arg->name != NULL)
    return og_builder_wrong(b, OG_INVALID, "an item of a list has a name",
                            error);
  if (!og_array_reserve((void **)&tree->items, tree->count + 1, &tree->capacity,
                        sizeof *tree->items))
    return og_graph_no_memory(error);
  tree->items[tree->count++] = *arg;
  return OG_OK;
}

og_status og_tree_open(opgraft_builder *b, og_tree *tree, const char *name,
                       opgraft_error *error) {
  const int32_t most = (int32_t)(sizeof tree->open / sizeof *tree->open);
  if (tree->depth == most)
    return og_builder_wrong(b, OG_UNSUPPORTED, "its lists are nested too deep",
                            error);
  if (tree->depth > 0 && name != NULL)
    return og_builder_wrong(b, OG_INVALID, "an item of a list has a name",
                            error);
  OG_TRY(text_copy(b, name, &tree->open[tree->depth].name, error));
  tree->open[tree->depth++].first = tree->count;
  return OG_OK;
}

og_status og_tree_close(opgraft_builder *b, og_tree *tree,
                        opgraft_error *error) {
  if (tree->depth == 0)
    return og_builder_wrong(b, OG_INVALID, "no list is open", error);
  const int32_t first = tree->open[tree->depth - 1].first;
  const size_t count = (size_t)(tree->count - first);
  opgraft_arg *list = og_arena_array(&b->memory, count + 1, sizeof *list);
  if (list == NULL || !og_array_reserve((void **)&tree->items, first + 1,
                                        &tree->capacity, sizeof *tree->items))
    return og_graph_no_memory(error);
  if (count > 0) memcpy(list, tree->items + first, count * sizeof *list);
  tree->items[first] = (opgraft_arg){.name = tree->open[--tree->depth].name,
                                     .kind = OPGRAFT_ARG_LIST,
                                     .count = (int32_t)count,
                                     .list = list};
  tree->count = first + 1;
  return OG_OK;
}

static void tree_reset(og_tree *tree) { tree->count = tree->depth = 0; }

// --- What nodes stand for ----------------------------------------------------

og_status og_builder_reserve(opgraft_builder *b, int32_t node,
                             opgraft_error *error) {
  if (node < 0 || node >= NODES_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s: a node has the number %d, expected one "
                        "from 0 to %d",
                        b->graph->name, (int)node, NODES_MAX - 1);
  if (!og_array_reserve((void **)&b->nodes, node + 1, &b->node_capacity,
                        sizeof *b->nodes))
    return og_graph_no_memory(error);
  for (; b->node_count <= node; ++b->node_count)
    b->nodes[b->node_count] = (opgraft_arg){.kind = OG_BUILDER_UNSET};
  if (b->nodes[node].kind == OG_BUILDER_UNSET) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "graph %s: node %d is set twice", b->graph->name,
                      (int)node);
}

static og_status node_find(const opgraft_builder *b, int32_t node,
                           const opgraft_arg **out, opgraft_error *error) {
  *out = NULL;
  if (node < 0 || node >= b->node_count ||
      b->nodes[node].kind == OG_BUILDER_UNSET)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s: node %d is used before it is set",
                        b->graph->name, (int)node);
  *out = &b->nodes[node];
  return OG_OK;
}

og_status opgraft_builder_set(opgraft_builder *b, int32_t node,
                              const opgraft_arg *stands_for,
                              opgraft_error *error) {
  opgraft_arg own;
  OG_TRY(og_builder_reserve(b, node, error));
  OG_TRY(arg_copy(b, stands_for, &own, 0, error));
  own.name = NULL;
  b->nodes[node] = own;
  return OG_OK;
}

og_status opgraft_builder_set_item(opgraft_builder *b, int32_t node,
                                   int32_t list, int64_t index,
                                   opgraft_error *error) {
  const opgraft_arg *from;
  OG_TRY(node_find(b, list, &from, error));
  if (from->kind != OPGRAFT_ARG_LIST)
    return og_error_set(
        error, OG_UNSUPPORTED, NULL, NULL,
        "graph %s: node %d is an item of node %d, which is not a "
        "list",
        b->graph->name, (int)node, (int)list);
  if (index < 0 || index >= from->count)
    return og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                        "graph %s: node %d is item %lld of node %d, which has "
                        "%d",
                        b->graph->name, (int)node, (long long)index, (int)list,
                        (int)from->count);
  const opgraft_arg item = from->list[index];
  OG_TRY(og_builder_reserve(b, node, error));
  b->nodes[node] = item;
  return OG_OK;
}

og_status opgraft_builder_get(const opgraft_builder *b, int32_t node,
                              opgraft_arg *out_stands_for,
                              opgraft_error *error) {
  const opgraft_arg *found;
  *out_stands_for = (opgraft_arg){.kind = OPGRAFT_ARG_NONE};
  OG_TRY(node_find(b, node, &found, error));
  *out_stands_for = *found;
  return OG_OK;
}

og_status opgraft_builder_add_output(opgraft_builder *b, int32_t node,
                                     opgraft_error *error) {
  const opgraft_arg *found;
  opgraft_size size;
  OG_TRY(node_find(b, node, &found, error));
  switch (found->kind) {
    case OPGRAFT_ARG_NONE:
      return opgraft_graph_add_output(b->graph, -1, error);
    case OPGRAFT_ARG_VALUE:
      return opgraft_graph_add_output(b->graph, found->value, error);
    case OPGRAFT_ARG_SIZE:
      return opgraft_graph_add_size_output(b->graph, found->size, error);
    case OPGRAFT_ARG_INT:
      OG_TRY(opgraft_graph_size(b->graph, found->i, &size, error));
      return opgraft_graph_add_size_output(b->graph, size, error);
    default:
      return og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                          "graph %s: output %d is node %d, expected a tensor "
                          "or integer",
                          b->graph->name, (int)b->graph->output_count,
                          (int)node);
  }
}

// --- One operator ------------------------------------------------------------

og_status opgraft_builder_begin(opgraft_builder *b,
                                const opgraft_record *record,
                                int32_t is_functional, opgraft_error *error) {
  opgraft_record own;
  OG_TRY(og_copy_sized("opgraft_record", record, &own, sizeof own, error));
  if (b->is_begun)
    return og_builder_wrong(
        b, OG_INVALID, "an operator begins before this one has ended", error);
  if (own.name == NULL)
    return og_error_set(
        error, OG_INVALID, NULL, "opgraft_record",
        "opgraft_record.name is NULL, expected the node's name");
  if (own.arg_count != 0 || own.result_count != 0)
    return og_error_set(error, OG_INVALID, own.name, "opgraft_record",
                        "%s: the record has arguments or results, which are "
                        "the builder's to add",
                        own.name);
  OG_TRY(text_copy(b, own.name, &own.name, error));
  OG_TRY(text_copy(b, own.file, &own.file, error));
  b->record = own;
  b->is_functional = is_functional != 0;
  b->is_begun = true;
  return OG_OK;
}

void opgraft_builder_drop(opgraft_builder *b) {
  b->is_begun = false;
  tree_reset(&b->args);
  tree_reset(&b->results);
  b->info_count = b->base_count = b->written_count = 0;
}

og_status opgraft_builder_add_arg(opgraft_builder *b, const opgraft_arg *arg,
                                  opgraft_error *error) {
  opgraft_arg own;
  OG_TRY(og_builder_ready(b, error));
  OG_TRY(arg_copy(b, arg, &own, b->args.depth, error));
  return og_tree_add(b, &b->args, &own, error);
}

og_status opgraft_builder_add_node_arg(opgraft_builder *b, const char *name,
                                       int32_t node, opgraft_error *error) {
  const opgraft_arg *found;
  OG_TRY(og_builder_ready(b, error));
  OG_TRY(node_find(b, node, &found, error));
  opgraft_arg arg = *found;
  OG_TRY(text_copy(b, name, &arg.name, error));
  return og_tree_add(b, &b->args, &arg, error);
}

og_status opgraft_builder_open_list(opgraft_builder *b, const char *name,
                                    opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  return og_tree_open(b, &b->args, name, error);
}

og_status opgraft_builder_close_list(opgraft_builder *b, opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  return og_tree_close(b, &b->args, error);
}

// --- Results -----------------------------------------------------------------

og_status opgraft_builder_add_result(opgraft_builder *b,
                                     const opgraft_value_info *info,
                                     opgraft_error *error) {
  static const opgraft_value_info none = {.struct_size = sizeof none,
                                          .ndim = -1};
  opgraft_value_info own;
  OG_TRY(og_builder_ready(b, error));
  OG_TRY(og_builder_info(b, info != NULL ? info : &none, &own, error));
  if (b->is_functional && own.view_of != 0)
    return og_builder_wrong(b, OG_INVALID,
                            "a functional operator returns a view", error);
  if (!og_array_reserve((void **)&b->infos, b->info_count + 1,
                        &b->info_capacity, sizeof *b->infos))
    return og_graph_no_memory(error);
  const opgraft_arg result = {
      .kind = own.ndim < 0 ? OPGRAFT_ARG_NONE : OPGRAFT_ARG_VALUE,
      .value = b->info_count};
  OG_TRY(og_tree_add(b, &b->results, &result, error));
  b->infos[b->info_count++] = own;
  return OG_OK;
}

og_status opgraft_builder_add_known_result(opgraft_builder *b,
                                           const opgraft_arg *known,
                                           opgraft_error *error) {
  opgraft_arg own;
  OG_TRY(og_builder_ready(b, error));
  if (known->kind == OPGRAFT_ARG_VALUE || known->kind == OPGRAFT_ARG_LIST)
    return og_builder_wrong(b, OG_INVALID,
                            "a known result is a tensor or a list, expected a "
                            "size, a constant or NONE",
                            error);
  OG_TRY(arg_copy(b, known, &own, 0, error));
  own.name = NULL;
  return og_tree_add(b, &b->results, &own, error);
}

og_status opgraft_builder_open_results(opgraft_builder *b,
                                       opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  return og_tree_open(b, &b->results, NULL, error);
}

og_status opgraft_builder_close_results(opgraft_builder *b,
                                        opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  return og_tree_close(b, &b->results, error);
}
