// SPDX-License-Identifier: Apache-2.0
// What the files of the compiler backend share.
//
//   walk*.c     an FX graph's nodes -> records of opgraft/graph.h
//   node.c      nodes that the host runs: by the shim, by the dispatcher, by
//               Python
//   recipe.c    how the dispatcher is called: a schema's arguments as stable
//               values
//   compiled.c  the callable that Dynamo and AOTAutograd get

#ifndef OG_TORCH_GRAPH_H
#define OG_TORCH_GRAPH_H

#include <opgraft/executable.h>
#include <pthread.h>

#include "host.h"

// --- Memory that is freed at once --------------------------------------------

typedef struct pool {
  struct pool_block *blocks;
} pool;

// Zeroed; NULL with MemoryError set.
void *pool_alloc(pool *p, size_t count, size_t size);
const char *pool_string(pool *p, const char *text);
void pool_free(pool *p);
// Free memory that the process's allocator keeps goes back to the system: what
// compiling and a first call leave behind lies in holes that nothing fits in,
// and would stay resident beside all that later calls need. Takes
// milliseconds, so once a graph.
void memory_settle(void);

// --- How the dispatcher is called (recipe.c) ---------------------------------

typedef enum value_type {  // Python passes the number
  VALUE_TENSOR,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_BOOL,
  VALUE_STR,
  VALUE_DTYPE,
  VALUE_LAYOUT,
  VALUE_MEMORY_FORMAT,
  VALUE_DEVICE,
} value_type;

typedef struct recipe_param {
  const char *name;
  value_type type;
  bool is_list;
  bool is_optional;
  bool is_element_optional;
  int32_t list_size;  // of int[2]: one number stands for so many; else 0
  bool has_default;
  opgraft_arg otherwise;
} recipe_param;

typedef struct recipe {
  const char *name;          // "aten::cumsum"
  const char *overload;      // "" for the default one
  const char *out_overload;  // that writes into given results; or NULL
  const char *inplace_name;  // "aten::index_put_", of this overload; or NULL
  const recipe_param *params;
  int32_t param_count;
  int32_t out_count;           // .out arguments behind the parameters
  const uint8_t *result_list;  // whether result r is a list
  int32_t result_count;
  pool memory;
} recipe;

// recipe_new(name, overload, overload with .out arguments or None, name of the
// operator that writes its first argument instead or None, params, out count,
// is_list of each result)
PyObject *recipe_new(PyObject *self, PyObject *arguments);
const recipe *recipe_get(PyObject *capsule);

// A tensor of the node as a handle, made anew when its data moved.
typedef struct bound_tensor {
  tensor_handle handle;
  const void *data;
  PyObject *object;  // for Python; made on demand
} bound_tensor;

// Whether `arg` (NULL: absent) can be given as this parameter.
bool recipe_takes(const recipe_param *param, const opgraft_arg *arg);
// The argument as a stable value that the dispatcher then owns. False: no
// memory.
bool recipe_value(const recipe_param *param, const opgraft_arg *arg,
                  const bound_tensor *in, stable_value *out);

// --- Constants ---------------------------------------------------------------

// A Python constant as an argument: numbers, strings, dtypes, lists of these;
// what the engine has no kind for becomes OTHER, its text a key of `others`.
// 0, or -1 with an exception set.
typedef struct constants {
  pool *memory;
  PyObject *others;  // dict: text -> object
} constants;
int constant_read(const constants *c, PyObject *object, opgraft_arg *out);

// --- Nodes that the host runs (node.c) ---------------------------------------

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

void graph_host_fill(graph_context *context, opgraft_host *out);
void threads_host(opgraft_host *host);  // threads.c
// Frees what released states held. Under the interpreter lock.
void graph_context_sweep(graph_context *context);

// --- The walk (walk.c) -------------------------------------------------------

typedef struct walked {
  opgraft_graph *graph;
  int32_t *slots;  // by the graph's inputs: position among the arguments
  int32_t slot_count, slot_capacity;
  int32_t argument_count;  // placeholders
  PyObject *captured;      // list: tensors behind them, held by the graph
  int64_t result_bytes;    // of all results at once; -1 where it varies
} walked;

// graph: torch.fx.Graph's nodes in order; see _backend.py for `options`.
int graph_walk(PyObject *name, PyObject *nodes, PyObject *tools,
               graph_context *context, walked *out);

extern PyTypeObject *compiled_type;
int compiled_setup(void);
PyObject *graph_compile(PyObject *self, PyObject *arguments);
// A call with a list (emptied) or tuple of all arguments; a list of results.
PyObject *compiled_run(PyObject *compiled, PyObject *arguments);
// What inputs raise that do not fit; NULL: RuntimeError. Keeps a reference.
void compiled_set_error(PyObject *compiled, PyObject *type);

extern PyTypeObject *frozen_type;
int frozen_setup(void);
PyObject *frozen_new(PyObject *self, PyObject *arguments);
PyObject *graph_export(PyObject *self, PyObject *arguments);
PyObject *graph_error(const opgraft_error *error);
opgraft_module *module_get(PyObject *capsule);

#endif  // OG_TORCH_GRAPH_H
