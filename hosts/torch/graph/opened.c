// SPDX-License-Identifier: Apache-2.0
// Graph files from Python: written, packed, opened.

#include "torch/base/host.h"

#include <opgraft/graph_file.h>
#include <stdlib.h>

#include "torch/base/module.h"
#include "torch/graph/compiled.h"
#include "torch/graph/walk.h"

// --- Written -----------------------------------------------------------------

// A host that would run what the engine has no kernel of: a plan is made to
// pack the weights, and runs nothing.
static og_status stranger_prepare(void *context, const opgraft_node_call *node,
                                  void **out_state, uint32_t *out_flags,
                                  opgraft_error *error) {
  (void)context, (void)out_state, (void)out_flags, (void)error;
  return node->op != NULL ? OG_UNSUPPORTED : OG_OK;
}

static og_status stranger_run(void *context, void *state,
                              const opgraft_node_call *node,
                              opgraft_error *error) {
  (void)context, (void)state, (void)node, (void)error;
  return OG_UNSUPPORTED;
}

enum { SYMBOLS_MAX = 64 };

typedef struct symbols {
  const char *names[SYMBOLS_MAX];
  int64_t values[SYMBOLS_MAX];
  int32_t count;
} symbols;

static int symbols_read(PyObject *sizes, symbols *out) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  *out = (symbols){.count = 0};
  while (PyDict_Next(sizes, &at, &key, &value)) {
    if (out->count == SYMBOLS_MAX) {
      PyErr_Format(PyExc_ValueError,
                   "export: the graph has %zd sizes that vary, packed weights "
                   "are for %d at most",
                   PyDict_Size(sizes), (int)SYMBOLS_MAX);
      return -1;
    }
    out->names[out->count] = PyUnicode_AsUTF8AndSize(key, NULL);
    out->values[out->count] = PyLong_AsLongLong(value);
    if (out->names[out->count++] == NULL || PyErr_Occurred() != NULL) return -1;
  }
  return 0;
}

// As a run of the file would, on all threads of the machine.
static og_status file_pack(const char *path, uint32_t flags,
                           const symbols *sizes, opgraft_error *error) {
  opgraft_graph *graph;
  opgraft_executable *executable = NULL;
  const opgraft_host host = {.struct_size = sizeof host,
                             .prepare = stranger_prepare,
                             .run = stranger_run};
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = flags};
  og_status status = opgraft_graph_open(path, &graph, error);
  if (status != OG_OK) return status;
  status = opgraft_graph_finish(graph, &options, error);
  if (status == OG_OK)
    status = opgraft_executable_create(graph, &host, &executable, error);
  if (status == OG_OK)
    status = opgraft_executable_plan(executable, sizes->names, sizes->values,
                                     sizes->count, error);
  if (status == OG_OK)
    status = opgraft_executable_save(executable, path, error);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  return status;
}

static int graph_write(const opgraft_graph *graph, const char *path,
                       PyObject *sizes, uint32_t flags) {
  opgraft_error error;
  symbols known;
  const bool is_packed = sizes != Py_None;
  if (is_packed && symbols_read(sizes, &known) != 0) return -1;
  og_status status = opgraft_graph_save(graph, path, &error);
  if (status == OG_OK && is_packed) {
    PyThreadState *thread = PyEval_SaveThread();
    status = file_pack(path, flags, &known, &error);
    PyEval_RestoreThread(thread);
  }
  if (status == OG_OK) return 0;
  error_raise(&error);
  return -1;
}

// graph_export(name, nodes, tools, others, recipe_find, path, sizes, flags):
// the graph with all its tensors as a file. sizes: None, or {symbol: size} to
// pack the weights for.
PyObject *graph_export(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *name, *nodes, *tools, *sizes;
  const char *path;
  int flags;
  graph_context context = {.constant_bytes = INT64_MAX};
  walked found;
  if (!PyArg_ParseTuple(arguments, "UO!O!O!OsOi", &name, &PyList_Type, &nodes,
                        &PyTuple_Type, &tools, &PyDict_Type, &context.others,
                        &context.recipe_find, &path, &sizes, &flags))
    return NULL;
  context.targets = PyList_New(0);
  if (context.targets == NULL) return NULL;
  pthread_mutex_init(&context.lock, NULL);
  int status = graph_walk(name, nodes, tools, &context, &found);
  if (status == 0)
    status = graph_write(found.graph, path, sizes, (uint32_t)flags);
  if (found.graph != NULL) opgraft_graph_release(found.graph);
  Py_XDECREF(found.captured);
  free(found.slots);
  pthread_mutex_destroy(&context.lock);
  Py_DECREF(context.targets);
  if (status != 0) return NULL;
  Py_RETURN_NONE;
}

// --- Opened ------------------------------------------------------------------

static int modules_link(opgraft_graph *graph, PyObject *modules) {
  opgraft_error error;
  for (Py_ssize_t m = 0; m < PyTuple_Size(modules); ++m) {
    opgraft_module *module = module_get(PyTuple_GetItem(modules, m));
    if (module == NULL) return -1;
    if (opgraft_graph_add_module(graph, module, &error) == OG_OK) continue;
    error_raise(&error);
    return -1;
  }
  return 0;
}

// ("x", False): its name and whether it is an integer.
static PyObject *input_describe(const opgraft_graph *graph, int32_t index) {
  opgraft_value_info info = {.struct_size = sizeof info};
  const char *name = opgraft_graph_input_name(graph, index);
  opgraft_graph_input(graph, index, &info, NULL);  // it is there
  return name != NULL
             ? Py_BuildValue("sN", name, PyBool_FromLong(info.ndim < 0))
             : Py_BuildValue("NN", PyUnicode_FromFormat("%d", (int)index),
                             PyBool_FromLong(info.ndim < 0));
}

// (inputs, number of outputs)
static PyObject *graph_describe(const opgraft_graph *graph) {
  const int32_t count = opgraft_graph_input_count(graph);
  PyObject *inputs = PyList_New(count);
  for (int32_t i = 0; inputs != NULL && i < count; ++i) {
    PyObject *one = input_describe(graph, i);
    if (one == NULL)
      Py_CLEAR(inputs);
    else
      PyList_SetItem(inputs, i, one);
  }
  if (inputs == NULL) return NULL;
  return Py_BuildValue("Ni", inputs, (int)opgraft_graph_output_count(graph));
}

// graph_open(path, modules, flags, resolve, below) -> (graph, (inputs, number
// of outputs)).
PyObject *graph_open(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *modules, *resolve, *below;
  const char *path;
  int flags;
  opgraft_graph *graph;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "sO!iOO", &path, &PyTuple_Type, &modules,
                        &flags, &resolve, &below))
    return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_graph_open(path, &graph, &error);
  PyEval_RestoreThread(thread);
  if (status != OG_OK) return error_raise(&error);
  PyObject *told =
      modules_link(graph, modules) == 0 ? graph_describe(graph) : NULL;
  if (told == NULL) {
    opgraft_graph_release(graph);
    return NULL;
  }
  PyObject *made = compiled_of(graph, (uint32_t)flags, resolve, below);
  if (made != NULL) return Py_BuildValue("NN", made, told);
  Py_DECREF(told);
  return NULL;
}
