// SPDX-License-Identifier: Apache-2.0
// Results: parts of another tensor's memory, copies, what is said of them.

#include "torch/graph/view.h"

#include <string.h>

#include "torch/base/guard.h"
#include "torch/base/tensor.h"

// Python's as_strided, which counts the offset from where the storage begins.
static PyObject *as_strided(PyObject *base, const og_tensor *view,
                            int64_t offset) {
  PyObject *sizes = PyTuple_New(view->ndim), *strides = PyTuple_New(view->ndim);
  PyObject *object = NULL;
  for (int32_t d = 0; sizes && strides && d < view->ndim; ++d) {
    PyTuple_SetItem(sizes, d, PyLong_FromLongLong(view->shape[d]));
    PyTuple_SetItem(strides, d, PyLong_FromLongLong(view->strides[d]));
  }
  PyObject *start = PyObject_CallMethod(base, "storage_offset", NULL);
  if (sizes && strides && start)
    object =
        PyObject_CallMethod(base, "as_strided", "OOL", sizes, strides,
                            (long long)(PyLong_AsLongLong(start) + offset));
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(start);
  return object;
}

PyObject *view_untracked(PyObject *base, const og_tensor *view,
                         int64_t offset) {
  const tensor_handle handle = guard_handle(base);
  tensor_handle made;
  if (handle != NULL && guard_can_wrap() && guard_is_plain(base) &&
      shim.aoti_torch__reinterpret_tensor(handle, view->ndim, view->shape,
                                          view->strides, offset, &made) == 0)
    return handle_wrap(made);
  PyObject *plain = PyObject_CallMethod(base, "detach", NULL);
  PyObject *object = plain != NULL ? as_strided(plain, view, offset) : NULL;
  Py_XDECREF(plain);
  return object;
}

PyObject *view_tracked(PyObject *base, const og_tensor *view, int64_t offset) {
  const bool stops =
      guard_requires_grad(base) && shim.aoti_torch_grad_mode_is_enabled();
  if (stops) shim.aoti_torch_grad_mode_set_enabled(false);
  PyObject *object = as_strided(base, view, offset);
  if (stops) shim.aoti_torch_grad_mode_set_enabled(true);
  return object;
}

PyObject *view_detached(PyObject *base, const og_tensor *view, int64_t offset) {
  PyObject *tracked = view_tracked(base, view, offset);
  PyObject *object =
      tracked != NULL ? PyObject_CallMethod(tracked, "detach", NULL) : NULL;
  Py_XDECREF(tracked);
  return object;
}

int64_t view_offset(const og_tensor *tensor) {
  return (int64_t)tensor->byte_offset / ((tensor->dtype.bits + 7) / 8);
}

PyObject *view_copy(const og_tensor *tensor) {
  og_tensor fresh = *tensor;
  fresh.byte_offset = 0;
  PyObject *object = fresh_make(&fresh);
  if (object != NULL && og_numel(tensor) > 0)
    memcpy(fresh.data, (const char *)tensor->data + tensor->byte_offset,
           (size_t)og_numel(tensor) * ((tensor->dtype.bits + 7u) / 8u));
  return object;
}

bool view_is_own(PyObject *object, const og_tensor *tensor) {
  PyObject *address = PyObject_CallMethod(object, "data_ptr", NULL);
  const bool is_own = address != NULL && PyLong_AsVoidPtr(address) ==
                                             (const void *)og_data(tensor);
  Py_XDECREF(address);
  return is_own && PyErr_Occurred() == NULL;
}

int results_mark(PyObject *marks, PyObject *results) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(marks); ++i) {
    PyObject *function, *with;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(PyTuple_GetItem(marks, i), "OnO", &function, &at,
                          &with))
      return -1;
    PyObject *none = PyObject_CallFunctionObjArgs(
        function, PyList_GetItem(results, at), with, (PyObject *)NULL);
    Py_XDECREF(none);
    if (none == NULL) return -1;
  }
  return 0;
}

// A number that a method of the object gives; -1 with an exception set.
static long long number_of(PyObject *object, const char *method) {
  PyObject *number = PyObject_CallMethod(object, method, NULL);
  const long long value = number != NULL ? PyLong_AsLongLong(number) : -1;
  Py_XDECREF(number);
  return value;
}

int view_check(PyObject *object, const og_tensor *tensor,
               const opgraft_reach *reach) {
  if (reach->is_reversed) {
    PyErr_Format(PyExc_RuntimeError,
                 "opgraft: a view (as_strided) of input %d of a compiled graph "
                 "has a negative stride, which torch does not support",
                 (int)reach->input);
    return -1;
  }
  PyObject *storage = PyObject_CallMethod(object, "untyped_storage", NULL);
  const long long bytes = storage != NULL ? number_of(storage, "nbytes") : -1;
  const long long from = bytes >= 0 ? number_of(storage, "data_ptr") : -1;
  Py_XDECREF(storage);
  if (PyErr_Occurred() != NULL) return -1;
  const long long at =
      (long long)(intptr_t)tensor->data + (long long)tensor->byte_offset;
  const long long begin = at - from;
  if (begin >= 0 && begin <= bytes && begin + reach->low >= 0 &&
      reach->high <= bytes - begin)
    return 0;
  PyErr_Format(PyExc_RuntimeError,
               "opgraft: a view (as_strided) of input %d of a compiled graph "
               "has bytes [%lld, %lld) of its storage, which has %lld: it is "
               "out of bounds",
               (int)reach->input, (long long)(begin + reach->low),
               (long long)(begin + reach->high), bytes);
  return -1;
}
