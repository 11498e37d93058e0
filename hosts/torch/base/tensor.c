// SPDX-License-Identifier: Apache-2.0
// New tensor objects: by the shim where the guard knows how they are wrapped,
// else through DLPack's exchange API.

#include "torch/base/tensor.h"

#include "torch/base/cuda.h"
#include "torch/base/guard.h"
#include "torch/base/types.h"

static void set_python_error(void *context, const char *kind,
                             const char *message) {
  (void)context;
  (void)kind;
  PyErr_SetString(PyExc_RuntimeError, message);
}

static PyObject *fresh_wrap(og_tensor *fresh) {
  int32_t code;
  tensor_handle handle;
  if (dtype_to_shim(fresh->dtype, &code) != 0 ||
      shim.aoti_torch_empty_strided(fresh->ndim, fresh->shape, fresh->strides,
                                    code, cuda_torch_type(fresh->device),
                                    fresh->device.id, &handle) != 0) {
    PyErr_SetString(PyExc_MemoryError, "opgraft: could not allocate a result");
    return NULL;
  }
  shim.aoti_torch_get_data_ptr(handle, &fresh->data);
  return handle_wrap(handle);
}

// Through the published exchange API: the tensor is made first, and its object
// when the values are there.
static PyObject *fresh_exchange(og_tensor *fresh) {
  dl_managed *managed;
  void *object = NULL;
  if (exchange->allocate(fresh, &managed, NULL, set_python_error) != 0)
    return NULL;
  fresh->data = managed->tensor.data;
  fresh->byte_offset = managed->tensor.byte_offset;
  if (exchange->managed_to_object(managed, &object) != 0) return NULL;
  return object;
}

PyObject *fresh_make(og_tensor *fresh) {
  // The exchange API allocates row-major.
  if (LIKELY(guard_can_wrap())) return fresh_wrap(fresh);
  PyObject *object = fresh_exchange(fresh);
  if (object == NULL || tensor_is_row_major(fresh)) return object;
  static PyObject *empty_strided;
  if (empty_strided == NULL) {
    PyObject *torch_module = PyImport_ImportModule("torch");
    if (torch_module != NULL)
      empty_strided = PyObject_GetAttrString(torch_module, "empty_strided");
    Py_XDECREF(torch_module);
  }
  PyObject *sizes = PyTuple_New(fresh->ndim);
  PyObject *strides = PyTuple_New(fresh->ndim);
  for (int32_t i = 0; i < fresh->ndim; ++i) {
    PyTuple_SetItem(sizes, i, PyLong_FromLongLong(fresh->shape[i]));
    PyTuple_SetItem(strides, i, PyLong_FromLongLong(fresh->strides[i]));
  }
  PyObject *type = PyObject_GetAttrString(object, "dtype");
  PyObject *device = PyObject_GetAttrString(object, "device");
  Py_DECREF(object);
  PyObject *strided = NULL;
  PyObject *keywords =
      Py_BuildValue("{s:O,s:O}", "dtype", type, "device", device);
  PyObject *shape = Py_BuildValue("(OO)", sizes, strides);
  og_tensor view;
  if (empty_strided != NULL && keywords != NULL && shape != NULL)
    strided = PyObject_Call(empty_strided, shape, keywords);
  if (strided != NULL && exchange->tensor_from_object(strided, &view) == 0)
    fresh->data = view.data;
  Py_XDECREF(type);
  Py_XDECREF(device);
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(keywords);
  Py_XDECREF(shape);
  return strided;
}
