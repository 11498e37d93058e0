// SPDX-License-Identifier: Apache-2.0
// A node of the FX graph, given to the builder.

#include "torch/graph/walk_emit.h"

#include <stdlib.h>
#include <string.h>

#include "torch/base/pool.h"
#include "torch/base/raised.h"
#include "torch/graph/walk_read.h"

// --- Sources -----------------------------------------------------------------

// The last frame of the node's stack trace that someone wrote: 'File
// "model.py", line 12, in'. An operator's own Python function is generated.
static const char *frame_find(PyObject *meta) {
  PyObject *trace = PyDict_GetItem(meta, walk_names.stack_trace);
  if (trace == NULL || !PyUnicode_Check(trace)) return NULL;
  const char *text = PyUnicode_AsUTF8AndSize(trace, NULL), *found = NULL;
  for (const char *at = text; at != NULL && (at = strstr(at, "File \"")); ++at)
    if (strncmp(at + 6, "<opgraft ", 9) != 0) found = at + 6;
  return found;
}

// The innermost module that the node, or what it is the gradient of, came from:
// "encoder.0" of "L['self'].encoder.0". NULL: the model itself, or none.
static const char *module_find(PyObject *meta) {
  PyObject *stack = PyDict_GetItem(meta, walk_names.nn_module_stack);
  if (stack == NULL)
    stack = PyDict_GetItem(meta, walk_names.fwd_nn_module_stack);
  if (stack == NULL || !PyDict_Check(stack) || PyDict_Size(stack) == 0)
    return NULL;
  PyObject *modules = PyDict_Values(stack);
  if (modules == NULL) return NULL;
  PyObject *last = PyList_GetItem(modules, PyList_Size(modules) - 1);
  PyObject *path = last != NULL && PyTuple_Check(last) && PyTuple_Size(last) > 0
                       ? PyTuple_GetItem(last, 0)
                       : NULL;
  const char *text = path != NULL && PyUnicode_Check(path)
                         ? PyUnicode_AsUTF8AndSize(path, NULL)
                         : NULL;
  Py_DECREF(modules);  // the stack holds what `text` is a part of
  if (text != NULL && strncmp(text, "L[", 2) == 0) {
    text = strchr(text, ']');
    if (text != NULL) text += text[1] == '.' ? 2 : 1;
  }
  return text != NULL && *text != '\0' ? text : NULL;
}

// Where the node comes from: file and line, else the module's path with line 0.
static void source_read(walk *w, PyObject *meta, opgraft_record *record) {
  static const char prefix[] = "module ";
  const char *frame = frame_find(meta);
  const char *module = frame == NULL ? module_find(meta) : NULL;
  const char *found = frame != NULL ? frame : module;
  const char *end = frame != NULL    ? strchr(frame, '"')
                    : module != NULL ? module + strlen(module)
                                     : NULL;
  PyErr_Clear();
  if (end == NULL) return;
  const size_t before = frame != NULL ? 0 : sizeof prefix - 1;
  const size_t length = (size_t)(end - found);
  char *file = pool_alloc(&w->memory, before + length + 1, 1);
  if (file == NULL) {
    PyErr_Clear();
    return;
  }
  memcpy(file, prefix, before);
  memcpy(file + before, found, length);
  record->file = file;
  if (frame != NULL && strncmp(end, "\", line ", 8) == 0)
    record->line = (int32_t)strtol(end + 8, NULL, 10);
}

// --- Operators ---------------------------------------------------------------

// 1 where the node takes an object that it may change; -1: an exception.
static int is_ordered(const walk *w, const fx_node *n) {
  if (w->ordered == NULL) return 0;
  PyObject *inputs = PyObject_GetAttr(n->node, walk_names.all_input_nodes);
  if (inputs == NULL) return -1;
  int found = 0;
  for (Py_ssize_t i = 0; found == 0 && i < PyList_Size(inputs); ++i)
    found = PySet_Contains(w->ordered, PyList_GetItem(inputs, i));
  Py_DECREF(inputs);
  return found;
}

int walk_begin_operator(walk *w, const fx_node *n, opgraft_record *record,
                        PyObject *target, int is_functional) {
  const int ordered = is_ordered(w, n);
  if (ordered < 0) return -1;
  if (ordered > 0) record->flags |= OPGRAFT_RECORD_RANDOM;
  record->struct_size = sizeof *record;
  record->host_node = (int32_t)PyList_Size(w->context->targets);
  source_read(w, n->meta, record);
  if (PyList_Append(w->context->targets, target) != 0) return -1;
  return walk_engine(
      w, opgraft_builder_begin(w->builder, record, is_functional, &w->error));
}

// Begins an operator as Python describes it, with its arguments.
static int operator_begin(walk *w, const fx_node *n, PyObject *target,
                          PyObject *description, PyObject *args,
                          uint32_t flags) {
  opgraft_record record = {
      .name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(description, 1), NULL),
      .flags =
          flags | (uint32_t)PyLong_AsLong(PyTuple_GetItem(description, 3))};
  if (record.name == NULL ||
      walk_begin_operator(w, n, &record, target, false) != 0)
    return -1;
  return walk_args_add(w, args, n->kwargs);
}

static int operator_end(walk *w, const fx_node *n) {
  return walk_engine(w, opgraft_builder_end(w->builder, n->number, &w->error));
}

// The only result that the schema has, or -1: each item of a tuple is one.
static int32_t result_which(PyObject *views) {
  return views != Py_None && PyTuple_Size(views) == 1 ? 0 : -1;
}

int walk_emit(walk *w, const fx_node *n) {
  PyObject *views = PyTuple_GetItem(n->description, 2);
  if (operator_begin(w, n, n->target, n->description, n->args, 0) != 0)
    return -1;
  // What gives None has no results.
  if (n->val != Py_None &&
      walk_result_add(w, n->val, views, result_which(views)) != 0)
    return -1;
  return operator_end(w, n);
}

int walk_emit_getitem(walk *w, const fx_node *n) {
  const int32_t from = walk_number_find(w, PyTuple_GetItem(n->args, 0));
  const long index = PyLong_AsLong(PyTuple_GetItem(n->args, 1));
  if (from < 0 || (index == -1 && PyErr_Occurred() != NULL)) return -1;
  return walk_engine(w, opgraft_builder_set_item(w->builder, n->number, from,
                                                 index, &w->error));
}

static bool is_symbolic(const walk *w, PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return type == w->symint_type || type == w->symfloat_type;
}

int walk_emit_size(walk *w, const fx_node *n) {
  if (is_symbolic(w, n->val) || PyLong_CheckExact(n->val)) {
    opgraft_arg size = {.kind = OPGRAFT_ARG_SIZE};
    if (walk_size_read(w, n->val, &size.size) != 0) return -1;
    return walk_engine(
        w, opgraft_builder_set(w->builder, n->number, &size, &w->error));
  }
  if (n->val == Py_None || n->val == Py_True || n->val == Py_False ||
      PyFloat_CheckExact(n->val))
    return walk_constant_set(w, n->number, n->val);
  return walk_refuse(
      w, "node %S computes with sizes in a way that the engine lacks", n->node);
}

// The token, then what the operator gives.
static int effects_results(walk *w, const fx_node *n, PyObject *views) {
  static const opgraft_arg token = {.kind = OPGRAFT_ARG_NONE};
  const int32_t which = result_which(views);
  opgraft_builder *builder = w->builder;
  if (walk_engine(w, opgraft_builder_open_results(builder, &w->error)) != 0 ||
      walk_engine(
          w, opgraft_builder_add_known_result(builder, &token, &w->error)) != 0)
    return -1;
  const int32_t count = (int32_t)PyTuple_Size(n->val);
  for (int32_t i = 1; i < count; ++i)
    if (walk_result_add(w, PyTuple_GetItem(n->val, i), views,
                        which < 0 ? i - 1 : which) != 0)
      return -1;
  return walk_engine(w, opgraft_builder_close_results(builder, &w->error));
}

// with_effects(token, operator, arguments...) -> (token, results...)
int walk_emit_effects(walk *w, const fx_node *n,
                      PyObject *describe_target(walk *, PyObject *)) {
  const Py_ssize_t count = PyTuple_Size(n->args);
  if (count < 2 || n->val == NULL || !PyTuple_Check(n->val))
    return walk_refuse(w, "node %S has no value to go by", n->node);
  PyObject *target = PyTuple_GetItem(n->args, 1);
  PyObject *description = describe_target(w, target);
  PyObject *args =
      description != NULL ? PyTuple_GetSlice(n->args, 2, count) : NULL;
  if (args == NULL) return -1;
  const int status = operator_begin(w, n, target, description, args,
                                    OPGRAFT_RECORD_SIDE_EFFECT);
  Py_DECREF(args);
  if (status != 0 ||
      effects_results(w, n, PyTuple_GetItem(description, 2)) != 0)
    return -1;
  return operator_end(w, n);
}
