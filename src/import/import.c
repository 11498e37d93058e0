// SPDX-License-Identifier: Apache-2.0
// Translates records: by the table, by a module's declaration, as a view, or
// as a node that the host runs. Never a failure for want of a translation.

#include "import/import.h"

#include <string.h>
#include <time.h>

#include "module/module.h"

#define OG_ATEN(name, handler, op, spec) \
  {name, og_import_##handler, OG_IR_##op, spec},
static const og_aten_row rows[] = {
#include "import/aten.def"
};
#undef OG_ATEN
enum { ROW_COUNT = (int)(sizeof rows / sizeof *rows), SLOT_COUNT = 1024 };

// --- Finding the row ---------------------------------------------------------

static uint32_t name_hash(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name)
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash % SLOT_COUNT;
}

// A graph makes the hash table at its first record.
static const int16_t *row_slots(opgraft_graph *graph) {
  if (graph->import_slots != NULL) return graph->import_slots;
  int16_t *slots = og_arena_array(&graph->arena, SLOT_COUNT, sizeof *slots);
  if (slots == NULL) return NULL;
  for (int16_t i = 0; i < ROW_COUNT; ++i) {
    uint32_t at = name_hash(rows[i].name);
    while (slots[at] != 0) at = (at + 1) % SLOT_COUNT;
    slots[at] = (int16_t)(i + 1);
  }
  graph->import_slots = slots;
  return slots;
}

static const og_aten_row *row_find(const int16_t *slots, const char *name) {
  if (strncmp(name, "aten.", 5) == 0) name += 5;
  for (uint32_t at = name_hash(name); slots[at] != 0;
       at = (at + 1) % SLOT_COUNT)
    if (strcmp(rows[slots[at] - 1].name, name) == 0)
      return &rows[slots[at] - 1];
  return NULL;
}

const char *opgraft_graph_row(int32_t index) {
  return index >= 0 && index < ROW_COUNT ? rows[index].name : NULL;
}

// --- Results and nodes -------------------------------------------------------

og_status og_give_up(og_import *import, const char *reason) {
  import->reason = reason;
  return OG_UNSUPPORTED;
}

og_status og_result_make(og_import *import, int32_t index) {
  const opgraft_value_info *info = &import->record->results[index];
  import->out[index] = -1;
  if (info->ndim < 0) return OG_OK;  // the host's way to say None
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, info->dtype,
                            info->ndim, info->shape, info->strides,
                            &import->out[index], import->error));
  import->graph->values[import->out[index]].host_offset = info->offset;
  return OG_OK;
}

og_status og_results(og_import *import) {
  for (int32_t r = 0; r < import->record->result_count; ++r)
    OG_TRY(og_result_make(import, r));
  return OG_OK;
}

static og_status source_keep(og_import *import, int32_t node) {
  const opgraft_record *record = import->record;
  opgraft_graph *graph = import->graph;
  if (record->file == NULL) return OG_OK;
  // Nodes in a row mostly come from one file.
  const char *before = graph->last_file;
  if (before == NULL || strcmp(before, record->file) != 0) {
    char *copy =
        og_arena_strndup(&graph->arena, record->file, strlen(record->file));
    if (copy == NULL) return og_graph_no_memory(import->error);
    for (char *at = copy; *at != '\0'; ++at)
      if ((unsigned char)*at < 32) *at = '?';
    graph->last_file = copy;
  }
  graph->nodes[node].file = graph->last_file;
  graph->nodes[node].line = record->line;
  return OG_OK;
}

og_status og_append(og_import *import, int32_t op, const opgraft_value *in,
                    int32_t in_count, const opgraft_value *out,
                    int32_t out_count, const opgraft_arg *attrs) {
  int32_t node;
  OG_TRY(og_graph_append(import->graph, op, in, in_count, out, out_count, attrs,
                         &node, import->error));
  return source_keep(import, node);
}

og_status og_emit(og_import *import, int32_t op, const opgraft_value *in,
                  int32_t in_count, const opgraft_arg *attrs) {
  const og_op_info *info = &og_ops[op];
  const int32_t count = import->record->result_count;
  if (info->out_count >= 0 && count != info->out_count)
    return og_give_up(import, "it has another count of results here");
  if (in_count < info->in_min || (info->in_max >= 0 && in_count > info->in_max))
    return og_give_up(import, "it has another count of operands here");
  OG_TRY(og_results(import));
  OG_TRY(og_append(import, op, in, in_count, import->out, count, attrs));
  return og_keep_words(import);
}

og_status og_emit_new(og_import *import, int32_t op, const opgraft_value *in,
                      int32_t in_count, const opgraft_arg *attrs,
                      og_dtype dtype, int32_t ndim, const opgraft_size *shape,
                      opgraft_value *out) {
  opgraft_value result;  // `out` may be one of `in`
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, dtype, ndim, shape,
                            NULL, &result, import->error));
  OG_TRY(og_append(import, op, in, in_count, &result, 1, attrs));
  *out = result;
  return OG_OK;
}

og_status og_emit_view(og_import *import, opgraft_value base, int32_t index) {
  opgraft_graph *graph = import->graph;
  opgraft_size shift;
  if (base < 0 || base >= graph->value_count ||
      graph->values[base].kind == OG_VALUE_LITERAL)
    return og_give_up(import, "it views no tensor");
  if (!og_dtype_equal(graph->values[base].dtype,
                      import->record->results[index].dtype))
    return og_give_up(import, "a view of another type");
  OG_TRY(og_result_make(import, index));
  const opgraft_value id = import->out[index];
  if (id < 0) return OG_OK;
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_SUB, graph->values[id].host_offset,
                      graph->values[base].host_offset, &shift, import->error));
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_ADD, graph->values[base].offset,
                      shift, &graph->values[id].offset, import->error));
  graph->values[id].root = graph->values[base].root;
  return og_append(import, OG_IR_view, &base, 1, &id, 1, NULL);
}

// --- The host's words --------------------------------------------------------

// Copies arguments whose values become positions among the node's operands.
// With `in` NULL the operands are collected, else they must be there.
typedef struct words {
  opgraft_value in[OG_IMPORT_OPERANDS];
  int32_t in_count;
  const og_node *node;  // NULL: collect
  bool is_missing;
} words;

static int32_t word_operand(words *w, opgraft_value value) {
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

static og_status words_copy(og_import *import, words *w,
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
      copy[i].value = word_operand(w, args[i].value);
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(words_copy(import, w, args[i].list, args[i].count, &copy[i].list));
  }
  *out_args = copy;
  return OG_OK;
}

static og_status foreign_make(og_import *import, words *w, const char *name,
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
  words w = {.node = node};
  og_foreign *foreign = NULL;
  OG_TRY(foreign_make(import, &w, record->name, record->args, record->arg_count,
                      &foreign));
  // An operand that the engine changed cannot be said in the host's words.
  if (!w.is_missing) node->foreign = foreign;
  return OG_OK;
}

// --- Fallbacks and modules ---------------------------------------------------

// An operator that the engine can call itself: plain results, none of which is
// an argument, none with a size that only the kernel knows.
static const opgraft_op *module_op_find(const opgraft_graph *graph,
                                        const char *name) {
  const char *dot = strchr(name, '.');
  if (dot == NULL) return NULL;
  for (int32_t m = 0; m < graph->module_count; ++m) {
    const char *module = opgraft_module_name(graph->modules[m]);
    if (strlen(module) != (size_t)(dot - name) ||
        memcmp(module, name, strlen(module)) != 0)
      continue;
    char op_name[256] = "";
    strncpy(op_name, dot + 1, sizeof op_name - 1);
    char *overload = strstr(op_name, ".default");
    if (overload != NULL && overload[8] == '\0') *overload = '\0';
    const opgraft_op *op = opgraft_module_find_op(graph->modules[m], op_name);
    if (op != NULL) return op;
  }
  return NULL;
}

static bool can_call(const opgraft_op *op, int32_t result_count,
                     const char **out_reason) {
  const og_decl *decl = op->decl;
  *out_reason = NULL;
  if (decl->has_data_dependent_result)
    *out_reason = "the size of a result depends on data";
  if (decl->flags & OG_CAPTURE_NEVER)
    *out_reason = "it is declared as never captured";
  if (decl->fresh_count != decl->result_count)
    *out_reason = "a result is one of its arguments";
  for (int32_t r = 0; r < decl->result_count; ++r)
    if (decl->results[r].is_list) *out_reason = "a result is a list";
  if (result_count < decl->fresh_count)
    *out_reason = "the host names too few results";
  return *out_reason == NULL;
}

static uint32_t module_flags(const opgraft_op *op) {
  uint32_t flags = 0;
  if (op->decl->flags & OG_RANDOM) flags |= OG_OP_RANDOM;
  if (op->decl->flags & OG_SIDE_EFFECT) flags |= OG_OP_EFFECT;
  return flags;
}

void og_foreign_link(const opgraft_graph *graph, og_node *node,
                     og_foreign *foreign) {
  const char *reason;
  const opgraft_op *op = module_op_find(graph, foreign->name);
  if (op == NULL) return;
  node->flags |= module_flags(op);
  if (can_call(op, node->out_count, &reason)) foreign->module_op = op;
  foreign->reason = reason;
}

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
    const int32_t how = args[i].count;
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
    written += args[i].kind == OPGRAFT_ARG_LIST
                   ? written_count(args[i].list, args[i].count, kind)
                   : args[i].kind == OPGRAFT_ARG_VALUE && args[i].count == kind;
  return written;
}

// Results after the returns start as the arguments that are written, in order;
// those behind the record's own are parts.
static og_status updates_note(og_import *import, og_node *node,
                              const opgraft_arg *args, int32_t arg_count,
                              const og_foreign *foreign) {
  const int32_t written = written_count(args, arg_count, OPGRAFT_WRITTEN) +
                          written_count(args, arg_count, OPGRAFT_WRITTEN_BASE);
  const int32_t returns = import->record->result_count - written;
  if (written == 0) return OG_OK;
  if (returns < 0)
    return og_error_set(import->error, OG_INVALID, foreign->name, NULL,
                        "%s writes %d arguments but has %d results",
                        foreign->name, (int)written, (int)node->out_count);
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
         args[arg_count - 1].count == OPGRAFT_WRITTEN_BASE)
    --arg_count;
  return arg_count;
}

// The parts that are written, as results behind the record's own.
static og_status parts_make(og_import *import, const words *w,
                            const opgraft_arg *args, int32_t arg_count,
                            int32_t *operand, int32_t *at, opgraft_value *out) {
  opgraft_graph *graph = import->graph;
  for (int32_t i = 0; i < arg_count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(
          parts_make(import, w, args[i].list, args[i].count, operand, at, out));
    if (args[i].kind != OPGRAFT_ARG_VALUE) continue;
    const og_value *part = &graph->values[w->in[(*operand)++]];
    if (args[i].count == OPGRAFT_WRITTEN_PART)
      OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, part->dtype, part->ndim,
                                part->shape, part->strides, &out[(*at)++],
                                import->error));
  }
  return OG_OK;
}

static og_status fallback_append(og_import *import, words *w,
                                 const opgraft_arg *args, int32_t arg_count) {
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
    OG_TRY(parts_make(import, w, args, arg_count, &operand, &at, out));
  }
  return og_append(import, OG_IR_foreign, w->in, w->in_count, out,
                   results + parts, NULL);
}

og_status og_import_fallback(og_import *import, const char *name,
                             const opgraft_arg *args, int32_t arg_count,
                             const char *reason) {
  opgraft_graph *graph = import->graph;
  const opgraft_record *record = import->record;
  const int32_t own = own_count(args, arg_count);
  words w = {.node = NULL};
  og_foreign *foreign = NULL;
  OG_TRY(foreign_make(import, &w, name, args, own, &foreign));
  for (int32_t i = own; i < arg_count; ++i) word_operand(&w, args[i].value);
  if (w.is_missing)
    return og_error_set(import->error, OG_UNSUPPORTED, name, NULL,
                        "%s has more than %d operands", name,
                        (int)OG_IMPORT_OPERANDS);
  foreign->reason = reason;
  OG_TRY(fallback_append(import, &w, args, arg_count));
  og_node *node = &graph->nodes[graph->node_count - 1];
  node->foreign = foreign;
  if (record->flags & OPGRAFT_RECORD_RANDOM) node->flags |= OG_OP_RANDOM;
  if (record->flags & (OPGRAFT_RECORD_SIDE_EFFECT | OPGRAFT_RECORD_MUTATES))
    node->flags |= OG_OP_EFFECT;
  og_foreign_link(graph, node, foreign);
  return updates_note(import, node, args, arg_count, foreign);
}

static og_status functionalized(og_import *import) {
  const opgraft_record *record = import->record;
  if (record->arg_count < 1 || record->args[0].kind != OPGRAFT_ARG_STR)
    return og_error_set(import->error, OG_INVALID, record->name, NULL,
                        "auto_functionalized: its first argument is the "
                        "operator's name");
  return og_import_fallback(import, record->args[0].s, record->args + 1,
                            record->arg_count - 1, "there is no row for it");
}

// --- Records -----------------------------------------------------------------

static og_status args_check(const opgraft_graph *graph,
                            const opgraft_record *record,
                            const opgraft_arg *args, int32_t count, int depth,
                            opgraft_error *error) {
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_arg *arg = &args[i];
    const bool fits = (arg->kind != OPGRAFT_ARG_VALUE ||
                       (arg->value >= 0 && arg->value < graph->value_count)) &&
                      (arg->kind != OPGRAFT_ARG_SIZE ||
                       (arg->size >= 0 && arg->size < graph->sizes.count)) &&
                      arg->kind >= 0 && arg->kind <= OPGRAFT_ARG_OTHER &&
                      depth < 8;
    if (!fits)
      return og_error_set(error, OG_INVALID, record->name, arg->name,
                          "%s: argument %d names a value or size that the "
                          "graph has not",
                          record->name, (int)i);
    if (arg->kind == OPGRAFT_ARG_LIST)
      OG_TRY(
          args_check(graph, record, arg->list, arg->count, depth + 1, error));
  }
  return OG_OK;
}

static bool all_real(const opgraft_graph *graph, const opgraft_arg *args,
                     int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_VALUE &&
        og_dtype_class(graph->values[args[i].value].dtype) == OG_CLASS_NONE)
      return false;
    if (args[i].kind == OPGRAFT_ARG_LIST &&
        !all_real(graph, args[i].list, args[i].count))
      return false;
  }
  return true;
}

// Every result shares an argument's storage, by the host's word.
static bool is_pure_view(const opgraft_record *record) {
  for (int32_t r = 0; r < record->result_count; ++r) {
    const int32_t of = record->results[r].view_of - 1;
    if (of < 0 || of >= record->arg_count ||
        record->args[of].kind != OPGRAFT_ARG_VALUE)
      return false;
  }
  return record->result_count > 0 &&
         (record->flags & (OPGRAFT_RECORD_RANDOM | OPGRAFT_RECORD_SIDE_EFFECT |
                           OPGRAFT_RECORD_MUTATES)) == 0;
}

static og_status views_emit(og_import *import) {
  const opgraft_record *record = import->record;
  for (int32_t r = 0; r < record->result_count; ++r)
    OG_TRY(og_emit_view(import,
                        record->args[record->results[r].view_of - 1].value, r));
  return OG_OK;
}

static og_status row_run(og_import *import) {
  const opgraft_record *record = import->record;
  for (int32_t r = 0; r < record->result_count; ++r)
    if (record->results[r].ndim >= 0 &&
        og_dtype_class(record->results[r].dtype) == OG_CLASS_NONE)
      return og_give_up(import, "the engine does not compute with its type");
  if (!all_real(import->graph, record->args, record->arg_count))
    return og_give_up(import, "the engine does not compute with its type");
  return import->row->run(import);
}

static og_status record_import(og_import *import) {
  const opgraft_record *record = import->record;
  const int16_t *slots = row_slots(import->graph);
  og_status status = OG_UNSUPPORTED;
  import->reason = "there is no row for it";
  if (slots == NULL) return og_graph_no_memory(import->error);
  if (strcmp(record->name, "auto_functionalized") == 0)
    return functionalized(import);
  import->row = row_find(slots, record->name);
  if (is_pure_view(record) &&
      (import->row == NULL || import->row->op == OG_IR_view))
    status = views_emit(import);
  else if (import->row != NULL)
    status = row_run(import);
  if (status != OG_UNSUPPORTED) return status;
  return og_import_fallback(import, record->name, record->args,
                            record->arg_count, import->reason);
}

static int64_t now_ns(void) {
  struct timespec time;
  timespec_get(&time, TIME_UTC);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

og_status opgraft_graph_add_node(opgraft_graph *graph,
                                 const opgraft_record *record,
                                 opgraft_value *out_values,
                                 opgraft_error *error) {
  const int64_t begun_ns = now_ns();
  if (graph->is_finished)
    return og_error_set(error, OG_INVALID, record->name, NULL,
                        "graph %s is finished; nothing can be added to it",
                        graph->name);
  OG_TRY(args_check(graph, record, record->args, record->arg_count, 0, error));
  for (int32_t r = 0; r < record->result_count; ++r) out_values[r] = -1;
  og_import import = {
      .graph = graph, .record = record, .out = out_values, .error = error};
  const og_status status = record_import(&import);
  graph->import_ns += now_ns() - begun_ns;
  return status;
}
