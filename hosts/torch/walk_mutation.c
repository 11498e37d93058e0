// SPDX-License-Identifier: Apache-2.0
// auto_functionalized_v2: a mutating operator made functional.
//
// The operator is run on views of bases, and gives new bases. Python reads the
// node (see functionalized in _targets.py):
//   (operator, name, arguments, bases, result values)
//   arguments: (name or None, object, base index or -1, fake view or None)

#include <stdlib.h>

#include "walk.h"

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

static int sizes_arg(walk *w, const opgraft_size *sizes, int32_t count,
                     opgraft_arg *out) {
  opgraft_arg *list = pool_alloc(&w->memory, (size_t)count + 1, sizeof *list);
  if (list == NULL) return -1;
  for (int32_t i = 0; i < count; ++i)
    list[i] = (opgraft_arg){.kind = OPGRAFT_ARG_SIZE, .size = sizes[i]};
  *out = (opgraft_arg){.kind = OPGRAFT_ARG_LIST, .count = count, .list = list};
  return 0;
}

// as_strided_scatter(base, part, sizes, strides, offset)
static int base_scatter(walk *w, opgraft_value base, PyObject *base_fake,
                        opgraft_value piece, PyObject *fake, PyObject *target,
                        opgraft_value *out) {
  opgraft_value_info view;
  opgraft_arg args[5] = {{.kind = OPGRAFT_ARG_VALUE, .value = base},
                         {.kind = OPGRAFT_ARG_VALUE, .value = piece}};
  opgraft_record record = {
      .name = "aten.as_strided_scatter.default", .args = args, .arg_count = 5};
  if (walk_info_read(w, fake, &view) != 0 ||
      sizes_arg(w, view.shape, view.ndim, &args[2]) != 0 ||
      sizes_arg(w, view.strides, view.ndim, &args[3]) != 0)
    return -1;
  args[4] = (opgraft_arg){.kind = OPGRAFT_ARG_SIZE, .size = view.offset};
  w->result_count = 0;
  opgraft_value_info *info = walk_result_next(w);
  if (info == NULL || walk_info_read(w, base_fake, info) != 0) return -1;
  return walk_record_add(w, &record, target, out);
}

typedef struct mutation {
  PyObject *tuple;  // what Python read
  PyObject *node_args, *bases, *values, *scatter;
  opgraft_arg args[ARG_MAX];
  PyObject *fakes[ARG_MAX];  // of the view; NULL: the base itself
  int32_t base_of[ARG_MAX];  // -1: not written
  opgraft_value base_ids[ARG_MAX];
  int32_t arg_count, base_count;
} mutation;

static int mutation_args(walk *w, mutation *m) {
  m->args[0] = (opgraft_arg){.kind = OPGRAFT_ARG_STR};
  m->arg_count = 1;
  for (Py_ssize_t i = 0; i < PyTuple_Size(m->node_args); ++i) {
    PyObject *object, *name, *fake;
    int base;
    opgraft_arg *arg = &m->args[m->arg_count];
    if (!PyArg_ParseTuple(PyTuple_GetItem(m->node_args, i), "OOiO", &name,
                          &object, &base, &fake))
      return -1;
    *arg = (opgraft_arg){0};
    m->base_of[m->arg_count] = base;
    m->fakes[m->arg_count] = fake == Py_None ? NULL : fake;
    if (base < 0) {
      if (walk_arg_read(w, object, arg, 0) != 0) return -1;
    } else {
      *arg = (opgraft_arg){
          .kind = OPGRAFT_ARG_VALUE, .count = 1, .value = m->base_ids[base]};
      if (fake != Py_None &&
          base_view(w, m->base_ids[base], fake, m->scatter, &arg->value) != 0)
        return -1;
    }
    if (name != Py_None) {
      const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
      arg->name = text != NULL ? pool_string(&w->memory, text) : NULL;
      if (arg->name == NULL) return -1;
    }
    ++m->arg_count;
  }
  return 0;
}

static int mutation_bases(walk *w, mutation *m) {
  m->base_count = (int32_t)PyTuple_Size(m->bases);
  if (m->base_count > ARG_MAX || PyTuple_Size(m->node_args) >= ARG_MAX)
    return walk_refuse(w, "a node has too many arguments%S", Py_None);
  for (int32_t b = 0; b < m->base_count; ++b) {
    const entry *e = walk_entry_find(w, PyTuple_GetItem(m->bases, b));
    if (e == NULL) return -1;
    if (e->kind != ENTRY_VALUE)
      return walk_refuse(w, "a base is no tensor%S", Py_None);
    m->base_ids[b] = e->id;
  }
  return 0;
}

// Results: the operator's returns, then what each written argument became.
static int mutation_results(walk *w, const mutation *m, entry *returns) {
  const Py_ssize_t count = PyTuple_Size(m->values) - m->base_count;
  w->result_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *val = PyTuple_GetItem(m->values, i);
    if (val == Py_None)
      returns[i] = (entry){.kind = ENTRY_NONE};
    else if (walk_result_read(w, val, Py_None, 0, &returns[i]) != 0)
      return -1;
  }
  for (int32_t i = 1; i < m->arg_count; ++i) {
    if (m->base_of[i] < 0) continue;
    PyObject *fake = m->fakes[i] != NULL
                         ? m->fakes[i]
                         : PyTuple_GetItem(m->values, count + m->base_of[i]);
    opgraft_value_info *info = walk_result_next(w);
    if (info == NULL || walk_info_read(w, fake, info) != 0) return -1;
  }
  return 0;
}

static int mutation_emit(walk *w, const fx_node *n, mutation *m,
                         PyObject *target, entry *e) {
  opgraft_value ids[RESULT_MAX];
  if (mutation_bases(w, m) != 0) return -1;
  const int32_t returns = (int32_t)PyTuple_Size(m->values) - m->base_count;
  e->kind = ENTRY_LIST;
  e->count = returns + m->base_count;
  e->list = pool_alloc(&w->memory, (size_t)e->count + 1, sizeof *e->list);
  if (e->list == NULL || mutation_args(w, m) != 0) return -1;
  m->args[0].s = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(m->tuple, 1), NULL);
  opgraft_record record = {.name = "auto_functionalized",
                           .args = m->args,
                           .arg_count = m->arg_count};
  if (m->args[0].s == NULL || mutation_results(w, m, e->list) != 0) return -1;
  const int32_t fresh =
      w->result_count;  // returns that are tensors, then the written ones
  walk_source_read(w, n->meta, &record);
  if (walk_record_add(w, &record, target, ids) != 0) return -1;
  for (int32_t i = 0; i < returns; ++i) walk_results_name(&e->list[i], ids);
  int32_t written = 0;
  for (int32_t i = 1; i < m->arg_count; ++i) written += m->base_of[i] >= 0;
  for (int32_t b = 0; b < m->base_count; ++b)
    e->list[returns + b] = (entry){.kind = ENTRY_VALUE, .id = m->base_ids[b]};
  for (int32_t i = 1, r = fresh - written; i < m->arg_count; ++i) {
    if (m->base_of[i] < 0) continue;
    entry *base = &e->list[returns + m->base_of[i]];
    const opgraft_value piece = ids[r++];
    if (m->fakes[i] == NULL)
      base->id = piece;
    else if (base_scatter(w, base->id,
                          PyTuple_GetItem(m->values, returns + m->base_of[i]),
                          piece, m->fakes[i], m->scatter, &base->id) != 0)
      return -1;
  }
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
  if (m->tuple == Py_None)  // two views of one base: the operator as it is
    status = walk_emit(w, n, n->target, n->description, n->args, n->val, e);
  else if (m->tuple != NULL &&
           PyArg_ParseTuple(m->tuple, "OOO!O!O!O", &target, &name,
                            &PyTuple_Type, &m->node_args, &PyTuple_Type,
                            &m->bases, &PyTuple_Type, &m->values, &m->scatter))
    status = mutation_emit(w, n, m, target, e);
  Py_XDECREF(m->tuple);
  free(m);
  return status;
}
