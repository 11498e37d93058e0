// SPDX-License-Identifier: Apache-2.0
// One capture of a graph, read from what Python says of it.

#include "torch/graph/capture.h"

#include <stdlib.h>
#include <string.h>

#include "torch/base/tensor.h"

// Where a torch TensorImpl has its StorageImpl, and that its count of users.
// Python compares both with what torch says before results are lent
// (captures.py).
enum { STORAGE_OFFSET = 16, USE_COUNT_OFFSET = 8 };

// --- Places ------------------------------------------------------------------

static int place_begin(capture_place *at, Py_ssize_t ndim) {
  at->sizes = calloc(2 * (size_t)ndim + 1, sizeof *at->sizes);
  if (at->sizes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  at->ndim = (int32_t)ndim;
  at->strides = at->sizes + ndim;
  return 0;
}

static int place_read(PyObject *tuple, capture_place *at, bool *out_is_whole) {
  PyObject *sizes, *strides;
  long long offset;
  int is_whole;
  if (!PyArg_ParseTuple(tuple, "O!O!Lp", &PyTuple_Type, &sizes, &PyTuple_Type,
                        &strides, &offset, &is_whole) ||
      place_begin(at, PyTuple_Size(sizes)) != 0)
    return -1;
  for (int32_t d = 0; d < at->ndim; ++d) {
    PyObject *stride = PyTuple_GetItem(strides, d);
    if (stride == NULL) return -1;
    at->sizes[d] = PyLong_AsLongLong(PyTuple_GetItem(sizes, d));
    at->strides[d] = PyLong_AsLongLong(stride);
  }
  at->offset = offset;
  *out_is_whole = is_whole != 0;
  return PyErr_Occurred() != NULL ? -1 : 0;
}

const char *capture_storage(PyObject *tensor) {
  return (const char *)(uintptr_t)layout_word(layout_impl(tensor),
                                              STORAGE_OFFSET);
}

const uint32_t *capture_count(PyObject *tensor) {
  const char *count = capture_storage(tensor) + USE_COUNT_OFFSET;
  return (const uint32_t *)(const void *)count;
}

uint32_t capture_users(PyObject *tensor) {
  return __atomic_load_n(capture_count(tensor), __ATOMIC_ACQUIRE);
}

// --- Parts -------------------------------------------------------------------

static int arg_tensor_read(PyObject *tuple, capture_arg *arg) {
  PyObject *like, *buffer;
  int is_written;
  og_tensor tensor;
  if (!PyArg_ParseTuple(tuple, "OOp", &like, &buffer, &is_written)) return -1;
  if (!plain_read(like, guard_handle(like), &tensor)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "opgraft: an input of a capture cannot be read");
    return -1;
  }
  arg->kind = buffer == Py_None ? CAPTURE_PINNED : CAPTURE_COPIED;
  arg->is_written = is_written != 0;
  arg->dtype = tensor.dtype;
  arg->data = tensor.data;
  if (place_begin(&arg->at, tensor.ndim) != 0) return -1;
  const size_t bytes = (size_t)tensor.ndim * sizeof *tensor.shape;
  if (bytes > 0) {
    memcpy(arg->at.sizes, tensor.shape, bytes);
    memcpy(arg->at.strides, tensor.strides, bytes);
  }
  if (buffer == Py_None) return 0;
  arg->is_span = buffer != like;
  Py_INCREF(buffer);
  arg->buffer = buffer;
  return 0;
}

static int arg_read(PyObject *given, capture_arg *arg) {
  if (PyTuple_Check(given)) return arg_tensor_read(given, arg);
  arg->kind = CAPTURE_INT;
  if (given == Py_None) return 0;
  arg->value = PyLong_AsLongLong(given);
  return PyErr_Occurred() != NULL ? -1 : 0;
}

static int out_read(PyObject *given, capture_out *out) {
  PyObject *value, *place;
  int kind, index;
  if (!PyArg_ParseTuple(given, "iiOO", &kind, &index, &value, &place))
    return -1;
  out->kind = kind;
  out->index = index;
  Py_INCREF(value);
  out->value = value;
  return place == Py_None ? 0 : place_read(place, &out->at, &out->is_whole);
}

static int base_read(PyObject *tensor, capture_base *base) {
  if (Py_TYPE(tensor) != guard_tensor_type) {
    PyErr_SetString(PyExc_TypeError, "a base of results is not a plain tensor");
    return -1;
  }
  Py_INCREF(tensor);
  base->tensor = tensor;
  base->use_count = capture_count(tensor);
  return 0;
}

// --- All of it ---------------------------------------------------------------

static int parts_read(capture *c, PyObject *args, PyObject *outs,
                      PyObject *bases) {
  int status = 0;
  for (; status == 0 && c->arg_count < PyList_Size(args); ++c->arg_count) {
    capture_arg *arg = &c->args[c->arg_count];
    status = arg_read(PyList_GetItem(args, c->arg_count), arg);
    c->has_written |= arg->kind == CAPTURE_COPIED && arg->is_written;
  }
  for (; status == 0 && c->out_count < PyList_Size(outs); ++c->out_count)
    status =
        out_read(PyList_GetItem(outs, c->out_count), &c->outs[c->out_count]);
  for (; status == 0 && c->base_count < PyList_Size(bases); ++c->base_count)
    status = base_read(PyList_GetItem(bases, c->base_count),
                       &c->bases[c->base_count]);
  return status;
}

// Indices that Python gave, against what there is.
static int outs_check(const capture *c) {
  for (int32_t i = 0; i < c->out_count; ++i) {
    const capture_out *out = &c->outs[i];
    const int32_t most = out->kind == CAPTURE_PART    ? c->base_count
                         : out->kind == CAPTURE_INPUT ? c->arg_count
                                                      : INT32_MAX;
    if (out->index >= 0 && out->index < most) continue;
    PyErr_Format(PyExc_ValueError, "result %d: index %d, expected 0 to %d",
                 (int)i, (int)out->index, (int)most - 1);
    return -1;
  }
  return 0;
}

capture *capture_read(PyObject *arguments, int32_t argument_count) {
  PyObject *args, *outs, *bases, *replay;
  int lends;
  if (!PyArg_ParseTuple(arguments, "O!O!O!Op", &PyList_Type, &args,
                        &PyList_Type, &outs, &PyList_Type, &bases, &replay,
                        &lends))
    return NULL;
  if (PyList_Size(args) != argument_count) {
    PyErr_Format(PyExc_ValueError, "a capture of %zd arguments, expected %d",
                 PyList_Size(args), (int)argument_count);
    return NULL;
  }
  capture *c = calloc(1, sizeof *c);
  if (c != NULL) {
    c->args = calloc((size_t)PyList_Size(args) + 1, sizeof *c->args);
    c->outs = calloc((size_t)PyList_Size(outs) + 1, sizeof *c->outs);
    c->bases = calloc((size_t)PyList_Size(bases) + 1, sizeof *c->bases);
  }
  if (c == NULL || c->args == NULL || c->outs == NULL || c->bases == NULL) {
    if (c != NULL) capture_free(c);
    PyErr_NoMemory();
    return NULL;
  }
  c->lends = lends != 0;
  Py_INCREF(replay);
  c->replay = replay;
  if (parts_read(c, args, outs, bases) == 0 && outs_check(c) == 0) return c;
  capture_free(c);
  return NULL;
}

void capture_free(capture *c) {
  for (int32_t i = 0; c->args != NULL && i < c->arg_count; ++i) {
    free(c->args[i].at.sizes);
    Py_XDECREF(c->args[i].buffer);
  }
  for (int32_t i = 0; c->outs != NULL && i < c->out_count; ++i) {
    free(c->outs[i].at.sizes);
    Py_XDECREF(c->outs[i].value);
  }
  for (int32_t i = 0; c->bases != NULL && i < c->base_count; ++i)
    Py_XDECREF(c->bases[i].tensor);
  Py_XDECREF(c->replay);
  free(c->args);
  free(c->outs);
  free(c->bases);
  free(c);
}

bool capture_is_live(const capture *c) {
  for (int32_t i = 0; i < c->base_count; ++i)
    if (__atomic_load_n(c->bases[i].use_count, __ATOMIC_ACQUIRE) > 1)
      return true;
  return false;
}
