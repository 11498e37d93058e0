// SPDX-License-Identifier: Apache-2.0
// Where a node comes from: the host's record, copied once for all its nodes.

#include "import/origin.h"

// Turns values into positions: those of `node`, or, where that is NULL, of a
// list that grows.
typedef struct positions {
  const opgraft_graph *graph;
  const og_node *node;
  opgraft_value *in;
  int32_t in_count;
  bool is_missing;  // a value is not an operand, or there is no more room
} positions;

// Whether an operand is a value, or what the importer converted it to.
static bool is_of(const positions *p, opgraft_value operand,
                  opgraft_value value) {
  if (operand < 0 || operand == value) return operand == value;
  const int32_t maker = p->graph->values[operand].node;
  const og_node *copy = maker >= 0 ? &p->graph->nodes[maker] : NULL;
  return copy != NULL && copy->op == OG_IR_copy && copy->in[0] == value &&
         copy->origin == p->node->origin;
}

static int32_t position_of(positions *p, opgraft_value value) {
  const og_node *node = p->node;
  for (int32_t i = 0; node != NULL && i < node->in_count; ++i)
    if (is_of(p, node->in[i], value)) return i;
  if (node != NULL || p->in_count == OG_IMPORT_OPERANDS) {
    p->is_missing = true;
    return -1;
  }
  p->in[p->in_count] = value;
  return p->in_count++;
}

static og_status args_copy(og_import *import, positions *p,
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
      copy[i].value = position_of(p, args[i].value);
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(args_copy(import, p, args[i].list, args[i].count, &copy[i].list));
  }
  *out_args = copy;
  return OG_OK;
}

static og_status origin_make(og_import *import, const char *name) {
  og_origin *origin = og_arena_alloc(&import->graph->arena, sizeof *origin);
  if (origin == NULL) return og_graph_no_memory(import->error);
  *origin = (og_origin){.name = og_graph_string(import->graph, name),
                        .host_node = import->record->host_node};
  if (origin->name == NULL) return og_graph_no_memory(import->error);
  import->origin = origin;
  return OG_OK;
}

og_status og_origin_get(og_import *import, og_origin **out_origin) {
  if (import->origin == NULL) OG_TRY(origin_make(import, import->record->name));
  *out_origin = import->origin;
  return OG_OK;
}

og_status og_origin_say(og_import *import) {
  const opgraft_record *record = import->record;
  og_node *node = &import->graph->nodes[import->graph->node_count - 1];
  og_origin *origin = NULL;
  positions p = {.graph = import->graph, .node = node};
  OG_TRY(og_origin_get(import, &origin));
  OG_TRY(args_copy(import, &p, record->args, record->arg_count, &origin->args));
  origin->arg_count = record->arg_count;
  node->is_as_recorded = !p.is_missing;
  return OG_OK;
}

og_status og_origin_foreign(og_import *import, const char *name,
                            const opgraft_arg *args, int32_t arg_count,
                            opgraft_value *in, int32_t *in_count,
                            og_origin **out_origin) {
  positions p = {.in = in};
  // What a handler that gave up had made of it stays with its dead nodes.
  OG_TRY(origin_make(import, name));
  OG_TRY(args_copy(import, &p, args, arg_count, &import->origin->args));
  import->origin->arg_count = arg_count;
  *in_count = p.in_count;
  *out_origin = import->origin;
  if (!p.is_missing) return OG_OK;
  return og_error_set(import->error, OG_UNSUPPORTED, name, NULL,
                      "%s has more than %d operands", name,
                      (int)OG_IMPORT_OPERANDS);
}
