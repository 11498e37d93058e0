// SPDX-License-Identifier: Apache-2.0
// auto_functionalized_v2: a mutating operator made functional.
//
// Python reads the node (see functionalized in targets.py):
//   (operator, name, arguments, bases, result values)
//   arguments: (name, object, is written, what of which base)
// Result values are the returns, then the new bases.

#include "torch/graph/walk_mutation.h"

#include "torch/graph/walk_emit.h"
#include "torch/graph/walk_read.h"

typedef struct mutation {
  PyObject *target, *name;
  PyObject *args, *bases, *values;
} mutation;

// What the operator writes: (base, fake), where `fake` says what it sees of the
// base, None: all; None for none; a list of these for a list.
static int written_add(walk *w, const char *name, PyObject *views) {
  opgraft_builder *builder = w->builder;
  if (PyList_Check(views)) {
    int status =
        walk_engine(w, opgraft_builder_open_list(builder, name, &w->error));
    for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(views); ++i)
      status = written_add(w, NULL, PyList_GetItem(views, i));
    return status != 0
               ? -1
               : walk_engine(w, opgraft_builder_close_list(builder, &w->error));
  }
  if (views == Py_None) {
    const opgraft_arg none = {.name = name, .kind = OPGRAFT_ARG_NONE};
    return walk_engine(w, opgraft_builder_add_arg(builder, &none, &w->error));
  }
  opgraft_value_info info;
  int base;
  PyObject *fake;
  if (!PyArg_ParseTuple(views, "iO", &base, &fake) ||
      (fake != Py_None && walk_info_read(w, fake, &info) != 0))
    return -1;
  return walk_engine(
      w, opgraft_builder_add_written_arg(
             builder, name, base, fake != Py_None ? &info : NULL, &w->error));
}

static int mutation_bases(walk *w, const mutation *m, Py_ssize_t returns) {
  for (Py_ssize_t b = 0; b < PyTuple_Size(m->bases); ++b) {
    opgraft_value_info info;
    const int32_t number = walk_number_find(w, PyTuple_GetItem(m->bases, b));
    PyObject *fake = PyTuple_GetItem(m->values, returns + b);
    if (number < 0 || walk_info_read(w, fake, &info) != 0 ||
        walk_engine(w, opgraft_builder_add_base(w->builder, number, &info,
                                                &w->error)) != 0)
      return -1;
  }
  return 0;
}

static int mutation_args(walk *w, const mutation *m) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(m->args); ++i) {
    PyObject *object, *views;
    const char *name;
    int is_written;
    if (!PyArg_ParseTuple(PyTuple_GetItem(m->args, i), "sOpO", &name, &object,
                          &is_written, &views) ||
        (is_written ? written_add(w, name, views)
                    : walk_arg_add(w, name, object)) != 0)
      return -1;
  }
  return 0;
}

// torch gives None for an operator without returns.
static int return_add(walk *w, PyObject *val) {
  static const opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  if (val != Py_None) return walk_result_add(w, val, Py_None, 0);
  return walk_engine(
      w, opgraft_builder_add_known_result(w->builder, &none, &w->error));
}

static int mutation_emit(walk *w, const fx_node *n, const mutation *m) {
  opgraft_record record = {.name = PyUnicode_AsUTF8AndSize(m->name, NULL)};
  const Py_ssize_t returns = PyTuple_Size(m->values) - PyTuple_Size(m->bases);
  if (record.name == NULL ||
      walk_begin_operator(w, n, &record, m->target, true) != 0 ||
      mutation_bases(w, m, returns) != 0 || mutation_args(w, m) != 0)
    return -1;
  for (Py_ssize_t i = 0; i < returns; ++i)
    if (return_add(w, PyTuple_GetItem(m->values, i)) != 0) return -1;
  const og_status status =
      opgraft_builder_end(w->builder, n->number, &w->error);
  // The engine cannot say it: the operator as it is.
  return status == OG_UNSUPPORTED ? walk_emit(w, n) : walk_engine(w, status);
}

int walk_functionalized(walk *w, const fx_node *n) {
  mutation m;
  int status = -1;
  PyObject *read = PyObject_CallFunctionObjArgs(w->functionalized, n->node,
                                                (PyObject *)NULL);
  if (read == Py_None)  // the same
    status = walk_emit(w, n);
  else if (read != NULL &&
           PyArg_ParseTuple(read, "OUO!O!O!", &m.target, &m.name, &PyTuple_Type,
                            &m.args, &PyTuple_Type, &m.bases, &PyTuple_Type,
                            &m.values))
    status = mutation_emit(w, n, &m);
  Py_XDECREF(read);
  return status;
}
