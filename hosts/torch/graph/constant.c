// SPDX-License-Identifier: Apache-2.0
// Python constants as arguments of a record.

#include "torch/graph/constant.h"
#include "torch/base/pool.h"
#include "torch/base/types.h"

static int other_read(const constants *c, PyObject *object, opgraft_arg *out) {
  PyObject *text = c->others != NULL ? PyObject_Repr(object) : NULL;
  if (text == NULL) {
    if (PyErr_Occurred() == NULL) out->kind = OPGRAFT_ARG_OTHER, out->s = "";
    return PyErr_Occurred() == NULL ? 0 : -1;
  }
  // Two objects may print alike.
  while (PyDict_Contains(c->others, text) == 1 &&
         PyDict_GetItem(c->others, text) != object) {
    PyObject *longer = PyUnicode_FromFormat("%U'", text);
    Py_DECREF(text);
    if (longer == NULL) return -1;
    text = longer;
  }
  const char *bytes = PyUnicode_AsUTF8AndSize(text, NULL);
  out->kind = OPGRAFT_ARG_OTHER;
  out->s = bytes != NULL ? pool_string(c->memory, bytes) : NULL;
  const int status =
      out->s != NULL ? PyDict_SetItem(c->others, text, object) : -1;
  Py_DECREF(text);
  return status;
}

static int list_read(const constants *c, PyObject *object, opgraft_arg *out) {
  const bool is_tuple = PyTuple_Check(object);
  const Py_ssize_t count =
      is_tuple ? PyTuple_Size(object) : PyList_Size(object);
  opgraft_arg *list = pool_alloc(c->memory, (size_t)count + 1, sizeof *list);
  if (list == NULL) return -1;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (constant_read(
            c,
            is_tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i),
            &list[i]) != 0)
      return -1;
  out->kind = OPGRAFT_ARG_LIST;
  out->list = list;
  out->count = (int32_t)count;
  return 0;
}

int constant_read(const constants *c, PyObject *object, opgraft_arg *out) {
  int overflow = 0;
  if (object == Py_None) {
    out->kind = OPGRAFT_ARG_NONE;
  } else if (object == Py_True || object == Py_False) {
    out->kind = OPGRAFT_ARG_BOOL;
    out->i = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    out->kind = OPGRAFT_ARG_INT;
    out->i = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return other_read(c, object, out);
  } else if (PyFloat_CheckExact(object)) {
    out->kind = OPGRAFT_ARG_FLOAT;
    out->f = PyFloat_AsDouble(object);
  } else if (PyUnicode_CheckExact(object)) {
    const char *text = PyUnicode_AsUTF8AndSize(object, NULL);
    out->kind = OPGRAFT_ARG_STR;
    out->s = text != NULL ? pool_string(c->memory, text) : NULL;
    return out->s != NULL ? 0 : -1;
  } else if (PyTuple_CheckExact(object) || PyList_Check(object)) {
    return list_read(c, object, out);
  } else if (dtype_from_object(object, &out->dtype) == 0) {
    out->kind = OPGRAFT_ARG_DTYPE;
  } else {
    return other_read(c, object, out);
  }
  return 0;
}
