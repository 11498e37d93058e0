// SPDX-License-Identifier: Apache-2.0
// Results of which a dim is expanded: its elements share memory, where torch
// refuses to write.

#include "torch/graph/expanded.h"
#include "torch/base/shim.h"

bool expanded_is(const og_tensor *wanted) {
  for (int32_t d = 0; d < wanted->ndim; ++d)
    if (wanted->strides[d] == 0 && wanted->shape[d] > 1) return true;
  return false;
}

// The first element of each dim that is expanded. NULL where it is not so in
// the tensor itself, or there is no memory.
static tensor_handle once(tensor_handle handle, const og_tensor *wanted) {
  int64_t sizes[OPGRAFT_RANK_MAX], *strides;
  tensor_handle made = NULL;
  if (wanted->ndim > OPGRAFT_RANK_MAX ||
      shim.aoti_torch_get_strides(handle, &strides) != 0)
    return NULL;
  for (int32_t d = 0; d < wanted->ndim; ++d) {
    const bool is_one = wanted->strides[d] == 0 && wanted->shape[d] > 1;
    if (is_one && strides[d] != 0) return NULL;
    sizes[d] = is_one ? 1 : wanted->shape[d];
  }
  return shim.aoti_torch__reinterpret_tensor(handle, wanted->ndim, sizes,
                                             strides, 0, &made) == 0
             ? made
             : NULL;
}

bool expanded_copy(tensor_handle to, tensor_handle from,
                   const og_tensor *wanted) {
  const bool is_once = expanded_is(wanted);
  const tensor_handle source =
      is_once && from != NULL ? once(from, wanted) : from;
  const tensor_handle target = is_once ? once(to, wanted) : to;
  const bool ok =
      target != NULL && (source != NULL || from == NULL) &&
      (from == NULL ? shim.aoti_torch_zero_(target)
                    : shim.aoti_torch_copy_(target, source, 0)) == 0;
  if (is_once && source != NULL) shim.aoti_torch_delete_tensor_object(source);
  if (is_once && target != NULL) shim.aoti_torch_delete_tensor_object(target);
  return ok;
}

static bool has_stride(PyObject *object, int32_t dim) {
  PyObject *stride = PyObject_CallMethod(object, "stride", "i", dim);
  const bool found = stride == NULL || PyLong_AsLongLong(stride) != 0;
  if (found && PyErr_Occurred() == NULL)
    PyErr_SetString(PyExc_RuntimeError,
                    "a result is not expanded as its fake implementation says");
  Py_XDECREF(stride);
  return found;
}

PyObject *expanded_once(PyObject *object, const og_tensor *wanted) {
  for (int32_t d = 0; object != NULL && d < wanted->ndim; ++d) {
    if (wanted->strides[d] != 0 || wanted->shape[d] < 2) continue;
    PyObject *first =
        has_stride(object, d)
            ? NULL
            : PyObject_CallMethod(object, "narrow", "iii", d, 0, 1);
    Py_DECREF(object);
    object = first;
  }
  return object;
}
