// SPDX-License-Identifier: Apache-2.0
// Arguments of a record, and what the last column of aten.def makes of them.

#include "import/args.h"

#include <string.h>

#include "import/emit.h"
#include "import/numbers.h"
#include "import/spec.h"

// --- Arguments ---------------------------------------------------------------

const opgraft_arg *og_arg_at(const og_import *import, int32_t position) {
  const opgraft_record *record = import->record;
  if (position < 0) return NULL;
  for (int32_t i = 0; i < record->arg_count; ++i)
    if (record->args[i].name == NULL && position-- == 0)
      return &record->args[i];
  return NULL;
}

const opgraft_arg *og_arg_find(const og_import *import, int32_t position,
                               const char *name) {
  const opgraft_record *record = import->record;
  const opgraft_arg *found = NULL;
  for (int32_t i = 0; name != NULL && i < record->arg_count; ++i)
    if (record->args[i].name != NULL && strcmp(record->args[i].name, name) == 0)
      found = &record->args[i];
  if (found == NULL) found = og_arg_at(import, position);
  return found != NULL && found->kind != OPGRAFT_ARG_NONE ? found : NULL;
}

bool og_arg_int(const og_import *import, const opgraft_arg *arg, int64_t *out) {
  if (arg == NULL) return false;
  if (arg->kind == OPGRAFT_ARG_SIZE)
    return og_size_get(&import->graph->sizes, arg->size, out);
  *out = arg->i;
  return arg->kind == OPGRAFT_ARG_INT || arg->kind == OPGRAFT_ARG_BOOL;
}

og_status og_arg_size(og_import *import, const opgraft_arg *arg,
                      opgraft_size *out) {
  if (arg != NULL && arg->kind == OPGRAFT_ARG_SIZE) {
    *out = arg->size;
    return og_size_is_float(&import->graph->sizes, arg->size)
               ? og_give_up(import, "a size is a float")
               : OG_OK;
  }
  if (arg == NULL || arg->kind != OPGRAFT_ARG_INT)
    return og_give_up(import, "an argument is not an integer");
  return og_size_const(&import->graph->sizes, arg->i, out, import->error);
}

// A size that is not known yet becomes a tensor of one element.
static og_status size_operand(og_import *import, opgraft_size size,
                              opgraft_value *out) {
  int64_t number;
  if (og_size_get(&import->graph->sizes, size, &number))
    return og_graph_literal_int(import->graph, number, out, import->error);
  const opgraft_arg attrs[OG_OP_ATTR_MAX] = {
      {.kind = OPGRAFT_ARG_SIZE, .size = size}};
  const bool is_float = og_size_is_float(&import->graph->sizes, size);
  return og_emit_new(import, OG_IR_size, NULL, 0, attrs,
                     (og_dtype){is_float ? OG_CODE_FLOAT : OG_CODE_INT, 64, 1},
                     0, NULL, out);
}

og_status og_operand(og_import *import, const opgraft_arg *arg,
                     opgraft_value *out) {
  opgraft_graph *graph = import->graph;
  switch (arg->kind) {
    case OPGRAFT_ARG_VALUE:
      *out = arg->value;
      return OG_OK;
    case OPGRAFT_ARG_INT:
      return og_graph_literal_int(graph, arg->i, out, import->error);
    case OPGRAFT_ARG_BOOL:
      return og_graph_literal_bool(graph, arg->i != 0, out, import->error);
    case OPGRAFT_ARG_FLOAT:
      return og_graph_literal_float(graph, arg->f, out, import->error);
    case OPGRAFT_ARG_SIZE:
      return size_operand(import, arg->size, out);
    default:
      return og_give_up(import, "an operand is neither a tensor nor a number");
  }
}

// --- The spec ----------------------------------------------------------------

static og_status operand_read(og_import *import, const og_spec_item *item,
                              const opgraft_arg *arg, opgraft_value *out) {
  *out = -1;
  if (arg == NULL)
    arg = &item->fallback;
  else if (import->element > 0 && arg->kind == OPGRAFT_ARG_LIST)
    arg = &arg->list[import->element - 1];
  return arg->kind == OPGRAFT_ARG_NONE ? OG_OK : og_operand(import, arg, out);
}

static og_status item_read(og_import *import, const og_spec_item *item,
                           og_spec_args *out) {
  const opgraft_arg *arg = og_arg_find(import, item->position, item->name);
  if (arg == NULL && item->is_required)
    return og_give_up(import, "an argument that it needs is missing");
  if (item->attr < 0)
    return operand_read(import, item, arg, &out->in[out->in_count++]);
  out->attrs[item->attr] = arg != NULL ? *arg : item->fallback;
  out->attrs[item->attr].name = NULL;
  return OG_OK;
}

// PyTorch subtracts no bools, and orders none: the host says so.
static bool refuses_bools(int32_t op) {
  return op == OG_IR_sub || op == OG_IR_rsub_scaled || op == OG_IR_argmax ||
         op == OG_IR_argmin;
}

static og_status bools_check(og_import *import, const og_spec_args *args) {
  for (int32_t i = 0; i < args->in_count && i < 2; ++i)
    if (args->in[i] >= 0 &&
        import->graph->values[args->in[i]].dtype.code == OG_CODE_BOOL)
      return og_give_up(import, "it takes no bools");
  return OG_OK;
}

// Operators whose second operand is an index, i32 or i64 in ATen: the host says
// so of others.
static bool takes_index(int32_t op) {
  static const int32_t ops[] = {
      OG_IR_gather,         OG_IR_scatter,   OG_IR_scatter_add,
      OG_IR_scatter_reduce, OG_IR_index_add, OG_IR_index_select,
      OG_IR_index_reduce,   OG_IR_embedding,
  };
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    if (ops[i] == op) return true;
  return false;
}

static og_status index_check(og_import *import, opgraft_value index) {
  const og_dtype dtype = index >= 0 ? import->graph->values[index].dtype
                                    : (og_dtype){OG_CODE_INT, 64, 1};
  return dtype.code == OG_CODE_INT && dtype.bits >= 32
             ? OG_OK
             : og_give_up(import, "its index is neither i32 nor i64");
}

og_status og_spec_read(og_import *import, og_spec_args *out) {
  out->in_count = 0;
  memset(out->attrs, 0, sizeof out->attrs);
  for (int32_t i = 0; i < import->spec->count; ++i)
    OG_TRY(item_read(import, &import->spec->items[i], out));
  if (refuses_bools(import->row->op)) OG_TRY(bools_check(import, out));
  if (takes_index(import->row->op)) OG_TRY(index_check(import, out->in[1]));
  return og_numbers_convert(import, out);
}
