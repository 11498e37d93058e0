// SPDX-License-Identifier: Apache-2.0
// The state of a walk over an FX graph.

#ifndef OG_TORCH_WALK_H
#define OG_TORCH_WALK_H

#include "torch/base/pool.h"
#include "torch/graph/node.h"

typedef struct walked {
  opgraft_graph *graph;
  int32_t *slots;  // by the graph's inputs: position among the arguments
  int32_t slot_count, slot_capacity;
  int32_t argument_count;  // placeholders
  PyObject *captured;      // list: tensors behind them, held by the graph
  int64_t result_bytes;    // of all results at once; -1 where it varies
} walked;

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
  PyObject *functionalized;  // (node) -> see targets.py
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

// graph: torch.fx.Graph's nodes in order; see backend.py for `options`.
int graph_walk(PyObject *name, PyObject *nodes, PyObject *tools,
               graph_context *context, walked *out);

#endif  // OG_TORCH_WALK_H
