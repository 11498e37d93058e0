// SPDX-License-Identifier: Apache-2.0
// Attributes as Python objects.

#include "torch/base/attr.h"

#include "torch/base/types.h"

static PyObject *entry_object(const og_attr *list, int64_t i) {
  switch (list->kind) {
    case OG_ATTR_FLOATS:
      return PyFloat_FromDouble(list->floats[i]);
    case OG_ATTR_BOOLS:
      return PyBool_FromLong((long)list->ints[i]);
    case OG_ATTR_STRS:
      return PyUnicode_FromString(list->strs[i]);
    default:
      return PyLong_FromLongLong(list->ints[i]);
  }
}

static PyObject *list_object(const og_attr *list) {
  PyObject *out = PyList_New((Py_ssize_t)list->count);
  for (int64_t i = 0; out != NULL && i < list->count; ++i) {
    PyObject *item = entry_object(list, i);
    if (item == NULL) {
      Py_DECREF(out);
      return NULL;
    }
    PyList_SetItem(out, (Py_ssize_t)i, item);
  }
  return out;
}

PyObject *attr_object(const og_attr *attr) {
  switch (attr->kind) {
    case OG_ATTR_INT:
      return PyLong_FromLongLong(attr->i);
    case OG_ATTR_FLOAT:
      return PyFloat_FromDouble(attr->f);
    case OG_ATTR_BOOL:
      return PyBool_FromLong((long)attr->i);
    case OG_ATTR_COMPLEX:
      return PyComplex_FromDoubles(attr->f, attr->imag);
    case OG_ATTR_STR:
      return PyUnicode_FromStringAndSize(attr->s, (Py_ssize_t)attr->count);
    case OG_ATTR_DTYPE:
      return dtype_object(attr->dtype);
    case OG_ATTR_DEVICE:
      return device_object(attr->device);
    case OG_ATTR_INTS:
    case OG_ATTR_FLOATS:
    case OG_ATTR_BOOLS:
    case OG_ATTR_STRS:
      return list_object(attr);
    default:
      Py_RETURN_NONE;
  }
}
