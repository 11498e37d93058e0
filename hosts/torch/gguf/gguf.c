// SPDX-License-Identifier: Apache-2.0
// A GGUF file's header as Python objects.

#include "torch/base/types.h"

#include <string.h>

#include "torch/gguf/reader.h"

static PyObject *text_new(gguf_text text) {
  return PyUnicode_DecodeUTF8(text.at, (Py_ssize_t)text.length,
                              "surrogateescape");
}

// The element at *at, which moves to the next one.
static PyObject *element_new(gguf_type type, const uint8_t **at) {
  union {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
    float f32;
    double f64;
  } x = {.u64 = 0};
  if (type == GGUF_TEXT) return text_new(gguf_text_take(at));
  memcpy(&x, *at, gguf_type_bytes(type));
  *at += gguf_type_bytes(type);
  switch (type) {
    case GGUF_BOOL:
      return PyBool_FromLong(x.u8 != 0);
    case GGUF_F32:
      return PyFloat_FromDouble((double)x.f32);
    case GGUF_F64:
      return PyFloat_FromDouble(x.f64);
    case GGUF_I8:
      return PyLong_FromLong(x.i8);
    case GGUF_I16:
      return PyLong_FromLong(x.i16);
    case GGUF_I32:
      return PyLong_FromLong(x.i32);
    case GGUF_I64:
      return PyLong_FromLongLong(x.i64);
    default:
      return PyLong_FromUnsignedLongLong(x.u64);
  }
}

static PyObject *value_new(const gguf_field *field) {
  const uint8_t *at = field->at;
  if (!field->is_list) return element_new(field->type, &at);
  PyObject *list = PyList_New((Py_ssize_t)field->count);
  for (size_t i = 0; list != NULL && i < field->count; ++i) {
    PyObject *element = element_new(field->type, &at);
    if (element == NULL)
      Py_CLEAR(list);
    else
      PyList_SetItem(list, (Py_ssize_t)i, element);
  }
  return list;
}

static int field_add(PyObject *fields, const gguf_field *field) {
  PyObject *name = text_new(field->name);
  PyObject *value = name != NULL ? value_new(field) : NULL;
  const int failed = value == NULL || PyDict_SetItem(fields, name, value) != 0;
  Py_XDECREF(name);
  Py_XDECREF(value);
  return failed ? -1 : 0;
}

static int tensor_add(PyObject *tensors, const gguf_tensor *tensor) {
  PyObject *shape = PyTuple_New(tensor->rank), *one = NULL;
  for (int32_t d = 0; shape != NULL && d < tensor->rank; ++d) {
    PyObject *size = PyLong_FromLongLong(tensor->shape[d]);
    if (size == NULL)
      Py_CLEAR(shape);
    else
      PyTuple_SetItem(shape, d, size);
  }
  PyObject *name = shape != NULL ? text_new(tensor->name) : NULL;
  if (name != NULL)
    one = Py_BuildValue("OsOnn", name, tensor->type, shape,
                        (Py_ssize_t)tensor->offset, (Py_ssize_t)tensor->size);
  const int failed = one == NULL || PyList_Append(tensors, one) != 0;
  Py_XDECREF(shape);
  Py_XDECREF(name);
  Py_XDECREF(one);
  return failed ? -1 : 0;
}

// False: it is wrong, or a Python error is set.
static int header_read(gguf_reader *r, PyObject *fields, PyObject *tensors) {
  gguf_field field;
  gguf_tensor tensor;
  while (r->fields_left > 0)
    if (!gguf_field_next(r, &field) || field_add(fields, &field) != 0) return 0;
  while (r->tensors_left > 0)
    if (!gguf_tensor_next(r, &tensor) || tensor_add(tensors, &tensor) != 0)
      return 0;
  return 1;
}

// gguf_read(address, bytes): of a mapped file, ({field: value}, [(name, type,
// shape, offset, bytes)] of the tensors). ValueError says what is wrong.
PyObject *gguf_read(PyObject *self, PyObject *arguments) {
  (void)self;
  Py_ssize_t address, bytes;
  gguf_reader r;
  if (!PyArg_ParseTuple(arguments, "nn", &address, &bytes)) return NULL;
  PyObject *fields = PyDict_New(), *tensors = PyList_New(0), *both = NULL;
  if (fields != NULL && tensors != NULL &&
      gguf_begin(&r, (const void *)(uintptr_t)address, (size_t)bytes) &&
      header_read(&r, fields, tensors))
    both = PyTuple_Pack(2, fields, tensors);
  else if (!PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, r.error);
  Py_XDECREF(fields);
  Py_XDECREF(tensors);
  return both;
}
