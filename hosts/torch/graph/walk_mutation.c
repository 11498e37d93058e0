// SPDX-License-Identifier: Apache-2.0
// auto_functionalized_v2: a mutating operator made functional.
//
// The operator is run on views of bases, and gives new bases. Python reads the
// node (see functionalized in targets.py):
//   (operator, name, arguments, bases, result values, view operator)
//   arguments: (name, object, is written, what of which base)
//   bases: (node, whether an argument is the base itself, and the only one)

#include "torch/graph/walk_mutation.h"

#include <stdlib.h>

#include "torch/base/pool.h"
#include "torch/graph/walk_emit.h"
#include "torch/graph/walk_read.h"

static int base_view(walk *w, opgraft_value base, PyObject *fake,
                     PyObject *target, opgraft_value *out) {
  opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE, .value = base};
  opgraft_record record = {
      .name = "aten.as_strided.default", .args = &arg, .arg_count = 1};
  w->result_count = 0;
  opgraft_value_info *info = walk_result_next(w);
  if (info == NULL || walk_info_read(w, fake, info) != 0) return -1;
  info->view_of = 1;
  return walk_record_add(w, &record, target, out);
}

typedef struct mutation {
  PyObject *tuple;  // what Python read
  PyObject *node_args, *bases, *values, *view;
  opgraft_arg args[ARG_MAX];
  opgraft_value base_ids[ARG_MAX];
  bool is_whole[ARG_MAX];  // the base is an argument itself, and the only one
  int32_t arg_count, base_count;
} mutation;

// What the operator writes: `fake` says what it sees of the base, None: all.
static int written_read(walk *w, const mutation *m, int base, PyObject *fake,
                        opgraft_arg *out) {
  const bool is_part = !m->is_whole[base];
  *out =
      (opgraft_arg){.name = out->name,
                    .kind = OPGRAFT_ARG_VALUE,
                    .written = is_part ? OPGRAFT_WRITTEN_PART : OPGRAFT_WRITTEN,
                    .value = m->base_ids[base]};
  if (fake == Py_None) return 0;
  return base_view(w, m->base_ids[base], fake, m->view, &out->value);
}

// (base, fake) for a tensor, None for none, a list of these for a list.
static int views_read(walk *w, const mutation *m, PyObject *views,
                      opgraft_arg *out) {
  int base;
  PyObject *fake;
  if (views == Py_None) return 0;
  if (!PyList_Check(views))
    return PyArg_ParseTuple(views, "iO", &base, &fake)
               ? written_read(w, m, base, fake, out)
               : -1;
  out->kind = OPGRAFT_ARG_LIST;
  out->count = (int32_t)PyList_Size(views);
  opgraft_arg *list =
      pool_alloc(&w->memory, (size_t)out->count + 1, sizeof *list);
  if (list == NULL) return -1;
  for (int32_t i = 0; i < out->count; ++i)
    if (views_read(w, m, PyList_GetItem(views, i), &list[i]) != 0) return -1;
  out->list = list;
  return 0;
}

static int mutation_args(walk *w, mutation *m) {
  m->args[0] = (opgraft_arg){.kind = OPGRAFT_ARG_STR};
  m->arg_count = 1;
  for (Py_ssize_t i = 0; i < PyTuple_Size(m->node_args); ++i) {
    PyObject *object, *views;
    const char *name;
    int is_written;
    opgraft_arg *arg = &m->args[m->arg_count++];
    if (!PyArg_ParseTuple(PyTuple_GetItem(m->node_args, i), "sOpO", &name,
                          &object, &is_written, &views))
      return -1;
    *arg = (opgraft_arg){.name = pool_string(&w->memory, name)};
    if (arg->name == NULL ||
        (is_written ? views_read(w, m, views, arg)
                    : walk_arg_read(w, object, arg, 0)) != 0)
      return -1;
  }
  for (int32_t b = 0; b < m->base_count; ++b)
    if (!m->is_whole[b])
      m->args[m->arg_count++] = (opgraft_arg){.kind = OPGRAFT_ARG_VALUE,
                                              .written = OPGRAFT_WRITTEN_BASE,
                                              .value = m->base_ids[b]};
  return 0;
}

static int mutation_bases(walk *w, mutation *m) {
  m->base_count = (int32_t)PyTuple_Size(m->bases);
  if (m->base_count + PyTuple_Size(m->node_args) >= ARG_MAX)
    return walk_refuse(w, "a node has too many arguments", NULL);
  for (int32_t b = 0; b < m->base_count; ++b) {
    PyObject *base;
    int is_whole;
    if (!PyArg_ParseTuple(PyTuple_GetItem(m->bases, b), "Op", &base, &is_whole))
      return -1;
    const entry *e = walk_entry_find(w, base);
    if (e == NULL) return -1;
    if (e->kind != ENTRY_VALUE)
      return walk_refuse(w, "a base is no tensor", NULL);
    m->base_ids[b] = e->id;
    m->is_whole[b] = is_whole;
  }
  return 0;
}

// The operator's returns.
static int returns_read(walk *w, const mutation *m, entry *returns) {
  const Py_ssize_t count = PyTuple_Size(m->values) - m->base_count;
  w->result_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *val = PyTuple_GetItem(m->values, i);
    if (val == Py_None)
      returns[i] = (entry){.kind = ENTRY_NONE};
    else if (walk_result_read(w, val, Py_None, 0, &returns[i]) != 0)
      return -1;
  }
  return 0;
}

// What bases become: those that are arguments in the order of these, then the
// others. *out_base says which base each result is.
static int32_t bases_order(const mutation *m, int32_t *out_base) {
  int32_t count = 0;
  for (int32_t i = 1; i < m->arg_count; ++i)
    for (int32_t b = 0; b < m->base_count; ++b)
      if (m->args[i].kind == OPGRAFT_ARG_VALUE && m->is_whole[b] &&
          m->args[i].written == OPGRAFT_WRITTEN &&
          m->args[i].value == m->base_ids[b])
        out_base[count++] = b;
  for (int32_t b = 0; b < m->base_count; ++b)
    if (!m->is_whole[b]) out_base[count++] = b;
  return count;
}

static int mutation_emit(walk *w, const fx_node *n, mutation *m,
                         PyObject *target, PyObject *name, entry *e) {
  opgraft_value ids[RESULT_MAX];
  int32_t base_of[ARG_MAX];
  if (mutation_bases(w, m) != 0) return -1;
  const int32_t returns = (int32_t)PyTuple_Size(m->values) - m->base_count;
  e->kind = ENTRY_LIST;
  e->count = returns + m->base_count;
  e->list = pool_alloc(&w->memory, (size_t)e->count + 1, sizeof *e->list);
  if (e->list == NULL || mutation_args(w, m) != 0) return -1;
  m->args[0].s = PyUnicode_AsUTF8AndSize(name, NULL);
  opgraft_record record = {.name = "auto_functionalized",
                           .args = m->args,
                           .arg_count = m->arg_count};
  if (m->args[0].s == NULL || returns_read(w, m, e->list) != 0) return -1;
  const int32_t first = w->result_count;
  const int32_t written = bases_order(m, base_of);
  for (int32_t i = 0; i < written; ++i) {
    opgraft_value_info *info = walk_result_next(w);
    PyObject *fake = PyTuple_GetItem(m->values, returns + base_of[i]);
    if (info == NULL || walk_info_read(w, fake, info) != 0) return -1;
  }
  walk_source_read(w, n->meta, &record);
  if (walk_record_add(w, &record, target, ids) != 0) return -1;
  for (int32_t i = 0; i < returns; ++i) walk_results_name(&e->list[i], ids);
  for (int32_t b = 0; b < m->base_count; ++b)
    e->list[returns + b] = (entry){.kind = ENTRY_VALUE, .id = m->base_ids[b]};
  for (int32_t i = 0; i < written; ++i)
    e->list[returns + base_of[i]].id = ids[first + i];
  return 0;
}

int walk_functionalized(walk *w, const fx_node *n, entry *e) {
  mutation *m = calloc(1, sizeof *m);
  if (m == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  PyObject *target, *name;
  int status = -1;
  m->tuple = PyObject_CallFunctionObjArgs(w->functionalized, n->node,
                                          (PyObject *)NULL);
  if (m->tuple == Py_None)  // the engine cannot say it: the operator as it is
    status = walk_emit(w, n, n->target, n->description, n->args, n->val, e);
  else if (m->tuple != NULL &&
           PyArg_ParseTuple(m->tuple, "OUO!O!O!O", &target, &name,
                            &PyTuple_Type, &m->node_args, &PyTuple_Type,
                            &m->bases, &PyTuple_Type, &m->values, &m->view))
    status = mutation_emit(w, n, m, target, name, e);
  Py_XDECREF(m->tuple);
  free(m);
  return status;
}
