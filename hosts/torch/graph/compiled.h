// SPDX-License-Identifier: Apache-2.0
// The callable that Dynamo and AOTAutograd get for a graph: boxed (it takes
// one list and empties it), one entry into C for the whole region.

#ifndef OG_TORCH_COMPILED_H
#define OG_TORCH_COMPILED_H

#include <opgraft/graph.h>

#include "torch/base/host.h"

extern PyTypeObject *compiled_type;
int compiled_setup(void);
// True: what torch asks of a callable that takes all arguments in one list.
PyObject *graph_is_boxed(PyObject *object, void *none);
// A callable of a graph that the engine runs by itself, whose arguments are its
// inputs; takes the graph over, also where it fails. `flags`: OPGRAFT_OPTION_*.
PyObject *compiled_of(opgraft_graph *graph, uint32_t flags, PyObject *resolve,
                      PyObject *below);
// A call with a list (emptied) or tuple of all arguments; a list of results.
PyObject *compiled_run(PyObject *compiled, PyObject *arguments);
// What inputs raise that do not fit; NULL: RuntimeError. Keeps a reference.
void compiled_set_error(PyObject *compiled, PyObject *type);

#endif  // OG_TORCH_COMPILED_H
