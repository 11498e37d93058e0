// SPDX-License-Identifier: Apache-2.0
// Nodes that the host runs: contractions by the shim's own functions, the rest
// by the dispatcher, in both cases over views of the plan's memory and without
// Python; by Python where neither can say it.

#ifndef OG_TORCH_NODE_H
#define OG_TORCH_NODE_H

#include <opgraft/executable.h>
#include <pthread.h>

#include "torch/base/host.h"

typedef struct graph_context {
  PyObject *targets;        // list: by host node, what Python calls
  PyObject *others;         // dict: text -> object
  PyObject *recipe_find;    // (target) -> capsule or None
  PyObject *recipes;        // list: by host node, what that said; None: unasked
  PyObject *in_python;      // set: names of operators that Python runs
  pthread_mutex_t lock;     // guards `dead`
  struct node_state *dead;  // states that wait for the interpreter lock
  int64_t constant_bytes;   // a tensor of the graph's own up to this is copied
} graph_context;

// The key of a torch.device in `others`.
enum { GRAPH_DEVICE_NAME = 40 };
void graph_device_name(og_device device, char *out);
// What an argument of the call is called that nodes take as it is.
enum { GRAPH_INPUT_NAME = 32 };
void graph_input_name(int32_t slot, char *out);
// The arguments of the call on this thread (list or tuple, borrowed; NULL:
// none), for nodes that Python runs. The ones before.
PyObject *graph_arguments_set(PyObject *arguments);
void graph_host_fill(graph_context *context, opgraft_host *out);
// Frees what released states held. Under the interpreter lock.
void graph_context_sweep(graph_context *context);

#endif  // OG_TORCH_NODE_H
