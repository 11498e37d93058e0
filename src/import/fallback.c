// SPDX-License-Identifier: Apache-2.0
// Records without a translation: nodes that the host or a module runs.

#include "import/fallback.h"

#include "import/emit.h"
#include "import/formula.h"
#include "import/link.h"
#include "import/origin.h"

// The result that replaces each written argument or base, from `result` on.
// What is written as a part becomes a part of its base's result.
typedef struct updates {
  og_import *import;
  const og_node *node;
  int32_t *update;
  int32_t result;   // the next whole one
  int32_t part;     // the next part
  int32_t operand;  // the next
} updates;

static og_status part_place(updates *u, opgraft_value piece) {
  opgraft_graph *graph = u->import->graph;
  const opgraft_value operand = u->node->in[u->operand];
  og_value *value = &graph->values[piece];
  for (int32_t r = 0; r < u->node->out_count; ++r) {
    if (u->update[r] == 0 || u->node->out[r] < 0) continue;
    const og_value *base = &graph->values[u->node->in[u->update[r] - 1]];
    if (base->root != graph->values[operand].root ||
        graph->values[u->node->out[r]].root != u->node->out[r])
      continue;
    value->root = u->node->out[r];
    return og_size_make(&graph->sizes, OG_SIZE_SUB,
                        graph->values[operand].offset, base->offset,
                        &value->offset, u->import->error);
  }
  return og_error_set(u->import->error, OG_INVALID, u->import->record->name,
                      NULL, "%s writes a part of a base that it does not name",
                      u->import->record->args[0].s);
}

static og_status updates_walk(updates *u, const opgraft_arg *args,
                              int32_t count, bool are_parts) {
  for (int32_t i = 0; i < count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(updates_walk(u, args[i].list, args[i].count, are_parts));
    if (args[i].kind != OPGRAFT_ARG_VALUE) continue;
    const int32_t how = args[i].written;
    if ((how == OPGRAFT_WRITTEN || how == OPGRAFT_WRITTEN_BASE) && !are_parts)
      u->update[u->result++] = u->operand + 1;
    if (how == OPGRAFT_WRITTEN_PART && are_parts) {
      OG_TRY(part_place(u, u->node->out[u->part]));
      u->update[u->part++] = u->operand + 1;
    }
    ++u->operand;
  }
  return OG_OK;
}

static int32_t written_count(const opgraft_arg *args, int32_t count,
                             int32_t kind) {
  int32_t written = 0;
  for (int32_t i = 0; i < count; ++i)
    written +=
        args[i].kind == OPGRAFT_ARG_LIST
            ? written_count(args[i].list, args[i].count, kind)
            : args[i].kind == OPGRAFT_ARG_VALUE && args[i].written == kind;
  return written;
}

// Results after the returns start as the arguments that are written, in order;
// those behind the record's own are parts.
static og_status updates_note(og_import *import, og_node *node,
                              const opgraft_arg *args, int32_t arg_count,
                              const og_origin *origin) {
  const int32_t written = written_count(args, arg_count, OPGRAFT_WRITTEN) +
                          written_count(args, arg_count, OPGRAFT_WRITTEN_BASE);
  const int32_t returns = import->record->result_count - written;
  if (written == 0) return OG_OK;
  if (returns < 0)
    return og_error_set(import->error, OG_INVALID, origin->name, NULL,
                        "%s writes %d argument%s but has %d result%s",
                        origin->name, (int)written, og_plural(written),
                        (int)node->out_count, og_plural(node->out_count));
  int32_t *update = og_arena_array(&import->graph->arena,
                                   (size_t)node->out_count, sizeof *update);
  if (update == NULL) return og_graph_no_memory(import->error);
  updates u = {.import = import,
               .node = node,
               .update = update,
               .result = returns,
               .part = import->record->result_count};
  OG_TRY(updates_walk(&u, args, arg_count, false));
  u.operand = 0;
  OG_TRY(updates_walk(&u, args, arg_count, true));
  node->update = update;
  return OG_OK;
}

// What the operator itself takes: bases of parts come behind that.
static int32_t own_count(const opgraft_arg *args, int32_t arg_count) {
  while (arg_count > 0 && args[arg_count - 1].kind == OPGRAFT_ARG_VALUE &&
         args[arg_count - 1].written == OPGRAFT_WRITTEN_BASE)
    --arg_count;
  return arg_count;
}

// The parts that are written, as results behind the record's own.
static og_status parts_make(og_import *import, const opgraft_value *in,
                            const opgraft_arg *args, int32_t arg_count,
                            int32_t *operand, int32_t *at, opgraft_value *out) {
  opgraft_graph *graph = import->graph;
  for (int32_t i = 0; i < arg_count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(parts_make(import, in, args[i].list, args[i].count, operand, at,
                        out));
    if (args[i].kind != OPGRAFT_ARG_VALUE) continue;
    const og_value *part = &graph->values[in[(*operand)++]];
    if (args[i].written == OPGRAFT_WRITTEN_PART)
      OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, part->dtype,
                                part->device, part->ndim, part->shape,
                                part->strides, &out[(*at)++], import->error));
  }
  return OG_OK;
}

static og_status fallback_append(og_import *import, const opgraft_value *in,
                                 int32_t in_count, const opgraft_arg *args,
                                 int32_t arg_count) {
  const int32_t results = import->record->result_count;
  const int32_t parts = written_count(args, arg_count, OPGRAFT_WRITTEN_PART);
  opgraft_value *out = import->out;
  OG_TRY(og_results(import));
  if (parts > 0) {
    int32_t operand = 0, at = results;
    out = og_arena_array(&import->graph->arena, (size_t)(results + parts),
                         sizeof *out);
    if (out == NULL) return og_graph_no_memory(import->error);
    for (int32_t r = 0; r < results; ++r) out[r] = import->out[r];
    OG_TRY(parts_make(import, in, args, arg_count, &operand, &at, out));
  }
  return og_append(import, OG_IR_foreign, in, in_count, out, results + parts,
                   NULL);
}

og_status og_import_fallback(og_import *import, const char *name,
                             const opgraft_arg *args, int32_t arg_count,
                             const char *reason) {
  opgraft_graph *graph = import->graph;
  const opgraft_record *record = import->record;
  opgraft_value in[OG_IMPORT_OPERANDS];
  int32_t in_count;
  og_origin *origin = NULL;
  OG_TRY(
      og_origin_foreign(import, name, args, arg_count, in, &in_count, &origin));
  // The operator itself does not take the bases of parts, which come last.
  origin->arg_count = own_count(args, arg_count);
  origin->reason = reason;
  OG_TRY(fallback_append(import, in, in_count, args, arg_count));
  og_node *node = &graph->nodes[graph->node_count - 1];
  node->is_as_recorded = true;
  if (record->flags & OPGRAFT_RECORD_RANDOM) node->flags |= OG_OP_RANDOM;
  if (record->flags & (OPGRAFT_RECORD_SIDE_EFFECT | OPGRAFT_RECORD_MUTATES))
    node->flags |= OG_OP_EFFECT;
  OG_TRY(updates_note(import, node, args, arg_count, origin));
  og_foreign_link(graph, node, origin);
  return og_import_formula(graph, graph->node_count - 1, &(int32_t){0},
                           import->error);
}
