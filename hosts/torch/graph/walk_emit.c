// SPDX-License-Identifier: Apache-2.0
// Records of a walk: a node of the FX graph as one of ours.

#include "torch/graph/walk_emit.h"

#include <stdlib.h>
#include <string.h>

#include "torch/base/pool.h"
#include "torch/base/raised.h"
#include "torch/graph/walk_read.h"

// --- Records -----------------------------------------------------------------

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
void walk_source_read(walk *w, PyObject *meta, opgraft_record *record) {
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

int walk_record_add(walk *w, opgraft_record *record, PyObject *target,
                    opgraft_value *ids) {
  record->struct_size = sizeof *record;
  record->results = w->results;
  record->result_size = sizeof *w->results;
  record->result_count = w->result_count;
  record->host_node = (int32_t)PyList_Size(w->context->targets);
  if (PyList_Append(w->context->targets, target) != 0) return -1;
  return walk_engine(
      w, opgraft_graph_add_node(w->out->graph, record, ids, &w->error));
}

int walk_emit(walk *w, const fx_node *n, PyObject *target,
              PyObject *description, PyObject *args, PyObject *val, entry *e) {
  opgraft_arg list[ARG_MAX];
  opgraft_value ids[RESULT_MAX];
  opgraft_record record = {.args = list};
  w->result_count = 0;
  record.name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(description, 1), NULL);
  record.flags = (uint32_t)PyLong_AsLong(PyTuple_GetItem(description, 3));
  PyObject *views = PyTuple_GetItem(description, 2);
  const int32_t which = views != Py_None && PyTuple_Size(views) == 1 ? 0 : -1;
  if (record.name == NULL ||
      walk_args_read(w, args, n->kwargs, list, &record.arg_count) != 0 ||
      walk_result_read(w, val, views, which, e) != 0)
    return -1;
  if (val == Py_None) w->result_count = 0;
  walk_source_read(w, n->meta, &record);
  if (walk_record_add(w, &record, target, ids) != 0) return -1;
  walk_results_name(e, ids);
  return 0;
}

int walk_emit_getitem(walk *w, const fx_node *n, entry *e) {
  const entry *from = walk_entry_find(w, PyTuple_GetItem(n->args, 0));
  const long index = PyLong_AsLong(PyTuple_GetItem(n->args, 1));
  if (from == NULL || (index == -1 && PyErr_Occurred() != NULL)) return -1;
  if (from->kind != ENTRY_LIST || index < 0 || index >= from->count)
    return walk_refuse(w, "node %S takes an item of what is no list", n->node);
  *e = from->list[index];
  return 0;
}

static bool is_symbolic(const walk *w, PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return type == w->symint_type || type == w->symfloat_type;
}

int walk_emit_size(walk *w, const fx_node *n, entry *e) {
  if (is_symbolic(w, n->val) || PyLong_CheckExact(n->val)) {
    e->kind = ENTRY_SIZE;
    return walk_size_read(w, n->val, &e->id);
  }
  if (n->val == Py_None || n->val == Py_True || n->val == Py_False ||
      PyFloat_CheckExact(n->val)) {
    e->kind = ENTRY_OBJECT;
    e->object = n->val;
    return 0;
  }
  return walk_refuse(
      w, "node %S computes with sizes in a way that the engine lacks", n->node);
}

// with_effects(token, operator, arguments...) -> (token, results...)
int walk_emit_effects(walk *w, const fx_node *n,
                      PyObject *describe_target(walk *, PyObject *), entry *e) {
  const Py_ssize_t count = PyTuple_Size(n->args);
  PyObject *target = count > 1 ? PyTuple_GetItem(n->args, 1) : NULL;
  PyObject *description = target != NULL ? describe_target(w, target) : NULL;
  PyObject *args =
      description != NULL ? PyTuple_GetSlice(n->args, 2, count) : NULL;
  if (args == NULL) return -1;
  entry inner = {.kind = ENTRY_NONE};
  const Py_ssize_t results = PyTuple_Check(n->val) ? PyTuple_Size(n->val) : 0;
  PyObject *rest = results > 0 ? PyTuple_GetSlice(n->val, 1, results) : NULL;
  PyObject *flagged = Py_BuildValue(
      "(OOOi)", PyTuple_GetItem(description, 0),
      PyTuple_GetItem(description, 1), PyTuple_GetItem(description, 2),
      OPGRAFT_RECORD_SIDE_EFFECT |
          (int)PyLong_AsLong(PyTuple_GetItem(description, 3)));
  int status = rest != NULL && flagged != NULL
                   ? walk_emit(w, n, target, flagged, args, rest, &inner)
                   : -1;
  Py_XDECREF(flagged);
  Py_XDECREF(rest);
  Py_DECREF(args);
  if (status != 0) return -1;
  e->kind = ENTRY_LIST;
  e->count = inner.count + 1;
  e->list = pool_alloc(&w->memory, (size_t)e->count, sizeof *e->list);
  if (e->list == NULL) return -1;
  if (inner.count > 0)
    memcpy(e->list + 1, inner.list, (size_t)inner.count * sizeof *e->list);
  return 0;
}
