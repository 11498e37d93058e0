// SPDX-License-Identifier: Apache-2.0
// Translates records: by the table, by a module's declaration, as a view, or
// as a node that the host runs. Never a failure for want of a translation.

#include "import/import.h"

#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "import/emit.h"
#include "import/fallback.h"
#include "import/spec.h"

#define OG_ATEN_NUM(name, handler, op, numbers, spec) \
  {name, og_import_##handler, OG_IR_##op, OG_NUMBERS_##numbers, spec},
#define OG_ATEN(name, handler, op, spec) \
  OG_ATEN_NUM(name, handler, op, NONE, spec)
static const og_aten_row rows[] = {
#include "import/aten.def"
};
#undef OG_ATEN
#undef OG_ATEN_NUM
enum { ROW_COUNT = (int)(sizeof rows / sizeof *rows), SLOT_COUNT = 1024 };

// A graph's view of the rows, made at its first record.
typedef struct og_import_table {
  int16_t slots[SLOT_COUNT];        // 1 + the row, by hash; 0: none
  const og_spec *specs[ROW_COUNT];  // NULL: not needed yet
} og_import_table;

// --- Finding the row ---------------------------------------------------------

static uint32_t name_hash(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name)
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash % SLOT_COUNT;
}

static og_import_table *table_get(opgraft_graph *graph) {
  if (graph->import_table != NULL) return graph->import_table;
  og_import_table *table = og_arena_alloc(&graph->arena, sizeof *table);
  if (table == NULL) return NULL;
  *table = (og_import_table){.slots = {0}};
  for (int16_t i = 0; i < ROW_COUNT; ++i) {
    uint32_t at = name_hash(rows[i].name);
    while (table->slots[at] != 0) at = (at + 1) % SLOT_COUNT;
    table->slots[at] = (int16_t)(i + 1);
  }
  graph->import_table = table;
  return table;
}

// -1 if there is none.
static int32_t row_find(const og_import_table *table, const char *name) {
  if (strncmp(name, "aten.", 5) == 0) name += 5;
  for (uint32_t at = name_hash(name); table->slots[at] != 0;
       at = (at + 1) % SLOT_COUNT)
    if (strcmp(rows[table->slots[at] - 1].name, name) == 0)
      return table->slots[at] - 1;
  return -1;
}

static og_status row_set(og_import *import) {
  og_import_table *table = table_get(import->graph);
  if (table == NULL) return og_graph_no_memory(import->error);
  const int32_t index = row_find(table, import->record->name);
  if (index < 0) return OG_OK;
  if (table->specs[index] == NULL)
    table->specs[index] = og_spec_parse(&import->graph->arena, &rows[index]);
  if (table->specs[index] == NULL) return og_graph_no_memory(import->error);
  import->row = &rows[index];
  import->spec = table->specs[index];
  return OG_OK;
}

const char *opgraft_graph_row(int32_t index) {
  return index >= 0 && index < ROW_COUNT ? rows[index].name : NULL;
}

// --- Records -----------------------------------------------------------------

const char *og_arg_fault(const opgraft_graph *graph, const opgraft_arg *arg,
                         int depth) {
  if (arg->kind < 0 || arg->kind > OPGRAFT_ARG_OTHER)
    return "has an unknown kind";
  if (arg->kind == OPGRAFT_ARG_VALUE &&
      (arg->value < 0 || arg->value >= graph->value_count))
    return "names a value that is not in the graph";
  if (arg->kind == OPGRAFT_ARG_SIZE &&
      (arg->size < 0 || arg->size >= graph->sizes.count))
    return "names a size that is not in the graph";
  if ((arg->kind == OPGRAFT_ARG_STR || arg->kind == OPGRAFT_ARG_OTHER) &&
      arg->s == NULL)
    return "is text that is NULL";
  if (arg->kind != OPGRAFT_ARG_LIST && arg->count != 0)
    return "has a count but is not a list";
  if (arg->count < 0 || depth == OG_IMPORT_DEPTH)
    return "is a list with a negative count, or nested too deep";
  if (arg->kind == OPGRAFT_ARG_LIST && arg->count > 0 && arg->list == NULL)
    return "is a list that is NULL";
  if (arg->written != 0 &&
      (arg->kind != OPGRAFT_ARG_VALUE || arg->written < 0 ||
       arg->written > OPGRAFT_WRITTEN_BASE))
    return "has an unknown way of being written, or is not a value";
  return NULL;
}

static og_status args_check(const opgraft_graph *graph,
                            const opgraft_record *record,
                            const opgraft_arg *args, int32_t count, int depth,
                            opgraft_error *error) {
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_arg *arg = &args[i];
    const char *fault = og_arg_fault(graph, arg, depth);
    if (fault != NULL)
      return og_error_set(error, OG_INVALID, record->name, arg->name,
                          "%s: argument %d %s", record->name, (int)i, fault);
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

static bool is_write_back(const og_import *import) {
  return import->row != NULL && import->row->op == OG_IR_copy_to;
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

static og_status row_run(og_import *import) {
  const opgraft_record *record = import->record;
  // Bytes, of whatever type.
  if (is_write_back(import)) return import->row->run(import);
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
  og_status status = OG_UNSUPPORTED;
  import->reason = "there is no row for it";
  if (strcmp(record->name, "auto_functionalized") == 0)
    return functionalized(import);
  OG_TRY(row_set(import));
  if (is_pure_view(record) &&
      (import->row == NULL || import->row->op == OG_IR_view))
    status = views_emit(import);
  else if (import->row != NULL)
    status = row_run(import);
  if (status != OG_UNSUPPORTED) return status;
  // The host would write an input that the graph takes for unwritten.
  if (is_write_back(import))
    return og_error_set(import->error, OG_UNSUPPORTED, record->name, NULL,
                        "%s: %s", record->name, import->reason);
  return og_import_fallback(import, record->name, record->args,
                            record->arg_count, import->reason);
}

// --- The caller's record -----------------------------------------------------

static og_status record_copy(const opgraft_record *from, opgraft_record *out,
                             opgraft_error *error) {
  OG_TRY(og_copy_sized("opgraft_record", from, out, sizeof *out, error));
  OG_TRY(og_flags_check("opgraft_record", out->flags,
                        OPGRAFT_RECORD_RANDOM | OPGRAFT_RECORD_SIDE_EFFECT |
                            OPGRAFT_RECORD_MUTATES | OPGRAFT_RECORD_NO_WRAP,
                        error));
  const char *missing = out->name == NULL                         ? "name"
                        : out->arg_count > 0 && out->args == NULL ? "args"
                        : out->result_count > 0 && out->results == NULL
                            ? "results"
                            : NULL;
  if (missing == NULL) return OG_OK;
  return og_error_set(error, OG_INVALID, out->name, "opgraft_record",
                      "opgraft_record.%s is NULL, expected the node's %s",
                      missing, missing);
}

// Results lie result_size apart, which an older or newer host chose.
static og_status results_copy(const opgraft_record *record,
                              opgraft_value_info *out, opgraft_error *error) {
  const char *from = (const char *)record->results;
  if (record->result_size < sizeof(uint32_t))
    return og_error_set(error, OG_INVALID, record->name, "opgraft_record",
                        "opgraft_record.result_size is %u, expected "
                        "sizeof(opgraft_value_info): %zu here",
                        (unsigned)record->result_size, sizeof *out);
  for (int32_t r = 0; r < record->result_count; ++r) {
    uint32_t size_bytes;
    memcpy(&size_bytes, from, sizeof size_bytes);
    if (size_bytes > record->result_size)
      return og_error_set(error, OG_INVALID, record->name, "opgraft_value_info",
                          "%s: result %d has %u bytes, and they lie %u bytes "
                          "apart (opgraft_record.result_size)",
                          record->name, (int)r, (unsigned)size_bytes,
                          (unsigned)record->result_size);
    OG_TRY(og_value_info_copy((const opgraft_value_info *)(const void *)from,
                              &out[r], error));
    from += record->result_size;
  }
  return OG_OK;
}

static og_status node_add(opgraft_graph *graph, const opgraft_record *record,
                          opgraft_value *out_values, opgraft_error *error) {
  OG_TRY(args_check(graph, record, record->args, record->arg_count, 0, error));
  for (int32_t r = 0; r < record->result_count; ++r) out_values[r] = -1;
  og_import import = {
      .graph = graph, .record = record, .out = out_values, .error = error};
  return record_import(&import);
}

og_status opgraft_graph_add_node(opgraft_graph *graph,
                                 const opgraft_record *record,
                                 opgraft_value *out_values,
                                 opgraft_error *error) {
  const int64_t begun_ns = og_now_ns();
  opgraft_record own;
  OG_TRY(record_copy(record, &own, error));
  if (graph->is_finished)
    return og_error_set(error, OG_INVALID, own.name, NULL,
                        "graph %s is finished; nothing can be added to it",
                        graph->name);
  const size_t count = own.result_count > 0 ? (size_t)own.result_count : 0;
  opgraft_value_info *results = og_alloc_zeroed(count, sizeof *results);
  if (results == NULL) return og_graph_no_memory(error);
  og_status status = count > 0 ? results_copy(&own, results, error) : OG_OK;
  own.results = results;
  if (status == OG_OK) status = node_add(graph, &own, out_values, error);
  og_free(results);
  graph->import_ns += og_now_ns() - begun_ns;
  return status;
}
