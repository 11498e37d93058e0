// SPDX-License-Identifier: Apache-2.0
// What the parts of the walk share.

#ifndef OG_TORCH_WALK_H
#define OG_TORCH_WALK_H

#include "graph.h"

enum { RESULT_MAX = 1024, ARG_MAX = 256, DEPTH_MAX = 6 };

typedef struct entry {
  enum { ENTRY_NONE, ENTRY_VALUE, ENTRY_SIZE, ENTRY_LIST, ENTRY_OBJECT } kind;
  int32_t id;          // value or size
  int32_t count;       // of the list
  struct entry *list;  //
  PyObject *object;    // borrowed: the graph owns it
} entry;

typedef struct walk {
  walked *out;
  graph_context *context;
  PyObject *describe;        // (target) -> description, asked once a target
  PyObject *known;           // dict: target -> description
  PyObject *functionalized;  // (node) -> see _targets.py
  PyObject *entries;         // dict: node -> index + 1 into `table`
  PyObject *sizes;           // dict: expression -> size
  PyObject *size_text;       // (SymInt or SymFloat) -> its expression
  PyObject *strided;         // the layout that all tensors have
  PyObject *symint_type, *symfloat_type, *node_type, *device_type;
  PyObject *tensor_type;
  PyObject *statics;  // set of positions
  entry *table;
  int32_t used;
  pool memory;
  opgraft_value_info results[RESULT_MAX];
  int32_t result_count;
  opgraft_error error;
} walk;

typedef struct fx_node {
  PyObject *node, *target, *args, *kwargs, *meta, *val;
  PyObject *description;  // (kind, name, views, flags)
} fx_node;

// Raises what Python takes as "this graph is not for the engine"; the format
// takes the object as %S, %R or %U. -1.
int walk_refuse(const walk *w, const char *format, PyObject *object);
// What a fake tensor says.
int walk_info_read(walk *w, PyObject *val, opgraft_value_info *info);
int walk_arg_read(walk *w, PyObject *object, opgraft_arg *out, int depth);
entry *walk_entry_find(const walk *w, PyObject *node);
// The next of w->results, a None until it is filled.
opgraft_value_info *walk_result_next(walk *w);
// Fills `e` with the shape of `val`; tensors become results, whose ids are
// their positions until walk_results_name. `views`: by the schema's result.
int walk_result_read(walk *w, PyObject *val, PyObject *views, int32_t which,
                     entry *e);
void walk_results_name(entry *e, const opgraft_value *ids);
void walk_source_read(walk *w, PyObject *meta, opgraft_record *record);
int walk_record_add(walk *w, opgraft_record *record, PyObject *target,
                    opgraft_value *ids);
int walk_emit(walk *w, const fx_node *n, PyObject *target,
              PyObject *description, PyObject *args, PyObject *val, entry *e);
// walk_mutation.c
int walk_functionalized(walk *w, const fx_node *n, entry *e);

#endif  // OG_TORCH_WALK_H
