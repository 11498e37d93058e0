// SPDX-License-Identifier: Apache-2.0
// The host's words for a node: the record's operator and arguments, copied.

#include "import/words.h"

int32_t og_words_operand(og_words *w, opgraft_value value) {
  if (w->node != NULL) {
    for (int32_t i = 0; i < w->node->in_count; ++i)
      if (w->node->in[i] == value) return i;
    w->is_missing = true;
    return 0;
  }
  if (w->in_count == OG_IMPORT_OPERANDS) {
    w->is_missing = true;
    return 0;
  }
  w->in[w->in_count] = value;
  return w->in_count++;
}

static og_status words_copy(og_import *import, og_words *w,
                            const opgraft_arg *args, int32_t count,
                            const opgraft_arg **out_args) {
  *out_args = NULL;
  if (count == 0) return OG_OK;
  opgraft_arg *copy =
      og_arena_array(&import->graph->arena, (size_t)count, sizeof *copy);
  if (copy == NULL) return og_graph_no_memory(import->error);
  for (int32_t i = 0; i < count; ++i) {
    copy[i] = args[i];
    if (args[i].name != NULL) {
      copy[i].name = og_graph_string(import->graph, args[i].name);
      if (copy[i].name == NULL) return og_graph_no_memory(import->error);
    }
    if (args[i].kind == OPGRAFT_ARG_STR || args[i].kind == OPGRAFT_ARG_OTHER) {
      copy[i].s = og_graph_string(import->graph, args[i].s);
      if (copy[i].s == NULL) return og_graph_no_memory(import->error);
    }
    if (args[i].kind == OPGRAFT_ARG_VALUE)
      copy[i].value = og_words_operand(w, args[i].value);
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(words_copy(import, w, args[i].list, args[i].count, &copy[i].list));
  }
  *out_args = copy;
  return OG_OK;
}

og_status og_foreign_make(og_import *import, og_words *w, const char *name,
                          const opgraft_arg *args, int32_t arg_count,
                          og_foreign **out_foreign) {
  og_foreign *foreign = og_arena_alloc(&import->graph->arena, sizeof *foreign);
  if (foreign == NULL) return og_graph_no_memory(import->error);
  foreign->name = og_graph_string(import->graph, name);
  if (foreign->name == NULL) return og_graph_no_memory(import->error);
  foreign->arg_count = arg_count;
  foreign->host_node = import->record->host_node;
  *out_foreign = foreign;
  return words_copy(import, w, args, arg_count, &foreign->args);
}

og_status og_keep_words(og_import *import) {
  opgraft_graph *graph = import->graph;
  og_node *node = &graph->nodes[graph->node_count - 1];
  const opgraft_record *record = import->record;
  og_words w = {.node = node};
  og_foreign *foreign = NULL;
  OG_TRY(og_foreign_make(import, &w, record->name, record->args,
                         record->arg_count, &foreign));
  // An operand that the engine changed cannot be said in the host's words.
  if (!w.is_missing) node->foreign = foreign;
  return OG_OK;
}
