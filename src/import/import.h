// SPDX-License-Identifier: Apache-2.0
// Host records to IR: the table, and what its handlers share.

#ifndef OG_IMPORT_IMPORT_H
#define OG_IMPORT_IMPORT_H

#include "graph/element.h"
#include "graph/graph.h"

struct og_aten_row;

enum { OG_IMPORT_OPERANDS = 128 };

// One record being translated.
typedef struct og_import {
  opgraft_graph *graph;
  const opgraft_record *record;
  const struct og_aten_row *row;
  opgraft_value *out;  // results made so far; -1: none yet
  int32_t element;     // 1 + the one of each list that is an operand; 0: none
  const char *reason;  // why a handler gave up
  opgraft_error *error;
} og_import;

// OG_UNSUPPORTED with import->reason set: the record becomes a fallback. Nodes
// that were added before are dead then.
typedef og_status (*og_import_fn)(og_import *import);

typedef struct og_aten_row {
  const char *name;
  og_import_fn run;
  int32_t op;
  const char *spec;
} og_aten_row;

#define OG_ATEN(name, handler, op, spec) \
  og_status og_import_##handler(og_import *import);
#include "import/aten.def"
#undef OG_ATEN

// --- Arguments ---------------------------------------------------------------

// A positional argument; NULL if there are fewer.
const opgraft_arg *og_arg_at(const og_import *import, int32_t position);
// By name, else by position; NULL if it is not given or None.
const opgraft_arg *og_arg_find(const og_import *import, int32_t position,
                               const char *name);
bool og_arg_int(const og_import *import, const opgraft_arg *arg, int64_t *out);
// A size from an integer argument, constant or not.
og_status og_arg_size(og_import *import, const opgraft_arg *arg,
                      opgraft_size *out);

// What the spec of the row says: operands, then attributes by the IR
// operator's list.
typedef struct og_spec_args {
  opgraft_value in[OG_IMPORT_OPERANDS];
  int32_t in_count;
  opgraft_arg attrs[OG_OP_ATTR_MAX];
} og_spec_args;
og_status og_spec_read(og_import *import, og_spec_args *out);
// A number or tensor argument as an operand: a literal, or a value.
og_status og_operand(og_import *import, const opgraft_arg *arg,
                     opgraft_value *out);

// --- Results and nodes -------------------------------------------------------

// Gives up, with a sentence that says why.
og_status og_give_up(og_import *import, const char *reason);
// The record's result as a new value, row-major or as the host says.
og_status og_result_make(og_import *import, int32_t index);
og_status og_results(og_import *import);
// A node with the record's source line.
og_status og_append(og_import *import, int32_t op, const opgraft_value *in,
                    int32_t in_count, const opgraft_value *out,
                    int32_t out_count, const opgraft_arg *attrs);
// A node whose results are the record's.
og_status og_emit(og_import *import, int32_t op, const opgraft_value *in,
                  int32_t in_count, const opgraft_arg *attrs);
// A node with one new result of this type and shape, row-major.
og_status og_emit_new(og_import *import, int32_t op, const opgraft_value *in,
                      int32_t in_count, const opgraft_arg *attrs,
                      og_dtype dtype, int32_t ndim, const opgraft_size *shape,
                      opgraft_value *out);
// Result `index` as a view of `base`.
og_status og_emit_view(og_import *import, opgraft_value base, int32_t index);
// Keeps the record's words with the node just added, for the host.
og_status og_keep_words(og_import *import);
// Has a node call its operator of one of the graph's modules, if there is one;
// foreign->reason then says why not, or is NULL.
void og_foreign_link(const opgraft_graph *graph, og_node *node,
                     og_foreign *foreign);
og_status og_import_fallback(og_import *import, const char *name,
                             const opgraft_arg *args, int32_t arg_count,
                             const char *reason);

#endif  // OG_IMPORT_IMPORT_H
