// SPDX-License-Identifier: Apache-2.0
// The state of a walk over an FX graph.

#ifndef OG_TORCH_WALK_H
#define OG_TORCH_WALK_H

#include <opgraft/builder.h>

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

typedef struct walk {
  walked *out;
  graph_context *context;
  PyObject *describe;        // (target) -> description, asked once a target
  PyObject *known;           // dict: target -> description
  PyObject *functionalized;  // (node) -> see targets.py
  PyObject *numbers;         // dict: node -> its number in the builder
  PyObject *sizes;           // dict: expression -> size
  PyObject *size_text;       // (SymInt or SymFloat) -> its expression
  PyObject *strided;         // the layout that all tensors have
  PyObject *symint_type, *symfloat_type, *node_type, *device_type;
  PyObject *tensor_type, *passed_type;
  PyObject *ordered;  // set: inputs that operators may change; NULL: none
  // Static inputs by position, the graph's own by name: flags of precision.
  PyObject *statics;
  opgraft_builder *builder;
  int32_t used;  // numbers
  pool memory;
  opgraft_error error;
} walk;

typedef struct fx_node {
  PyObject *node, *target, *args, *kwargs, *meta, *val;
  PyObject *description;  // (kind, name, views, flags)
  int32_t number;         // in the builder
} fx_node;

// graph: torch.fx.Graph's nodes in order; see backend.py for `options`.
int graph_walk(PyObject *name, PyObject *nodes, PyObject *tools,
               graph_context *context, walked *out);

#endif  // OG_TORCH_WALK_H
