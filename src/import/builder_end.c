// SPDX-License-Identifier: Apache-2.0
// The record of an operator that a builder has the arguments and results of.

#include "import/builder.h"

// Positions become values.
static void results_name(opgraft_arg *items, int32_t count,
                         const opgraft_value *ids) {
  for (int32_t i = 0; i < count; ++i) {
    if (items[i].kind == OPGRAFT_ARG_VALUE)
      items[i].value = ids[items[i].value];
    if (items[i].kind == OPGRAFT_ARG_LIST)
      results_name((opgraft_arg *)(uintptr_t)items[i].list, items[i].count,
                   ids);
  }
}

// What a functional operator's node stands for: its returns and new bases.
static og_status results_join(opgraft_builder *b, const opgraft_value *ids,
                              const int32_t *base_results,
                              opgraft_error *error) {
  OG_TRY(og_tree_open(b, &b->results, NULL, error));
  b->results.open[0].first = 0;
  for (int32_t i = 0; i < b->base_count; ++i) {
    const opgraft_arg base = {.kind = OPGRAFT_ARG_VALUE,
                              .value = ids[base_results[i]]};
    OG_TRY(og_tree_add(b, &b->results, &base, error));
  }
  return og_tree_close(b, &b->results, error);
}

static og_status operator_add(opgraft_builder *b, int32_t node,
                              opgraft_error *error) {
  opgraft_record record = b->record;
  OG_TRY(og_builder_reserve(b, node, error));
  if (b->args.depth > 0 || b->results.depth > 0)
    return og_builder_wrong(b, OG_INVALID, "a list is still open", error);
  if (!b->is_functional && b->results.count > 1)
    return og_builder_wrong(b, OG_INVALID,
                            "it has several results outside of a list", error);
  int32_t *base_results = og_arena_array(&b->memory, (size_t)b->base_count + 1,
                                         sizeof *base_results);
  opgraft_value *ids = og_arena_array(
      &b->memory, (size_t)b->info_count + (size_t)b->base_count + 1,
      sizeof *ids);
  if (base_results == NULL || ids == NULL) return og_graph_no_memory(error);
  record.struct_size = sizeof record;
  record.result_size = sizeof *b->infos;
  record.args = b->args.items;
  record.arg_count = b->args.count;
  record.results = b->infos;
  record.result_count = b->info_count;
  if (b->is_functional)
    OG_TRY(og_builder_functional(b, &record, base_results, error));
  OG_TRY(opgraft_graph_add_node(b->graph, &record, ids, error));
  results_name(b->results.items, b->results.count, ids);
  if (b->is_functional) OG_TRY(results_join(b, ids, base_results, error));
  b->nodes[node] = b->results.count > 0
                       ? b->results.items[0]
                       : (opgraft_arg){.kind = OPGRAFT_ARG_NONE};
  return OG_OK;
}

og_status opgraft_builder_end(opgraft_builder *b, int32_t node,
                              opgraft_error *error) {
  OG_TRY(og_builder_ready(b, error));
  const og_status status = operator_add(b, node, error);
  opgraft_builder_drop(b);
  return status;
}
