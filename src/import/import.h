// SPDX-License-Identifier: Apache-2.0
// Host records to IR: one record being translated, and the table.

#ifndef OG_IMPORT_IMPORT_H
#define OG_IMPORT_IMPORT_H

#include "graph/graph.h"
#include "scalar/element.h"

struct og_aten_row;
struct og_spec;

enum {
  OG_IMPORT_OPERANDS = 128,
  OG_IMPORT_DEPTH = 8,  // of an argument's lists
};

// One record being translated.
typedef struct og_import {
  opgraft_graph *graph;
  const opgraft_record *record;
  const struct og_aten_row *row;
  const struct og_spec *spec;  // of the row
  og_origin *origin;   // of all its nodes, once there is one that needs it
  opgraft_value *out;  // results made so far; -1: none yet
  int32_t element;     // 1 + the one of each list that is an operand; 0: none
  const char *reason;  // why a handler gave up
  opgraft_error *error;
} og_import;

// OG_UNSUPPORTED with import->reason set: the record becomes a fallback. Nodes
// that were added before are dead then.
typedef og_status (*og_import_fn)(og_import *import);

// What becomes of numbers, see aten.def.
typedef enum og_numbers {
  OG_NUMBERS_NONE,  // the row takes none
  OG_NUMBERS_COMMON,
  OG_NUMBERS_OPMATH,
  OG_NUMBERS_FILL,
} og_numbers;

typedef struct og_aten_row {
  const char *name;
  og_import_fn run;
  int32_t op;
  og_numbers numbers;
  const char *spec;
} og_aten_row;

// What is wrong with an argument that lies in `depth` lists; NULL: nothing.
const char *og_arg_fault(const opgraft_graph *graph, const opgraft_arg *arg,
                         int depth);

#define OG_ATEN(name, handler, op, spec) \
  og_status og_import_##handler(og_import *import);
#define OG_ATEN_NUM(name, handler, op, numbers, spec) \
  OG_ATEN(name, handler, op, spec)
#include "import/aten.def"
#undef OG_ATEN
#undef OG_ATEN_NUM

#endif  // OG_IMPORT_IMPORT_H
