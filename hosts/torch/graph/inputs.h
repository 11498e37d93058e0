// SPDX-License-Identifier: Apache-2.0
// The arguments of a compiled graph's call, as the engine takes them.

#ifndef OG_TORCH_GRAPH_INPUTS_H
#define OG_TORCH_GRAPH_INPUTS_H

#include "torch/base/guard.h"
#include "torch/base/host.h"
#include "torch/base/tensor.h"

enum {
  INPUT_BYTES = sizeof(og_tensor) + sizeof(og_tensor *) + sizeof(int64_t)
};

typedef struct inputs {
  og_tensor *tensors;
  const og_tensor **in;
  int64_t *ints;
  PyObject *kept;    // list: what was made for this call
  bool may_be_dual;  // forward mode is on: an input may have a tangent
} inputs;

static inline PyObject *inputs_object(PyObject *list, Py_ssize_t i) {
  return PyList_Check(list) ? PyList_GetItem(list, i)
                            : PyTuple_GetItem(list, i);
}

// A tensor whose memory is not what it shows (negated, conjugated, a
// subclass): Python makes one that is.
static inline int input_resolve(PyObject *resolve, PyObject *object, inputs *in,
                                og_tensor *out) {
  PyErr_Clear();
  PyObject *made =
      PyObject_CallFunctionObjArgs(resolve, object, (PyObject *)NULL);
  if (made == NULL) return -1;
  if (in->kept == NULL) in->kept = PyList_New(0);
  const int status = in->kept != NULL ? PyList_Append(in->kept, made) : -1;
  Py_DECREF(made);  // the list has it
  if (status != 0) return -1;
  if (!tensor_read(made, false, out)) {
    if (PyErr_Occurred() == NULL)
      PyErr_SetString(PyExc_RuntimeError,
                      "opgraft: an input of a compiled graph has no memory");
    return -1;
  }
  return 0;
}

static inline int input_read(PyObject *resolve, PyObject *object, inputs *in,
                             int32_t i) {
  in->in[i] = NULL;
  in->ints[i] = 0;
  if (LIKELY(guard_is_plain(object))) {
    in->in[i] = &in->tensors[i];
    if (UNLIKELY(in->may_be_dual) && guard_may_be_dual(object))
      return input_resolve(resolve, object, in, &in->tensors[i]);
    if (LIKELY(tensor_read(object, true, &in->tensors[i]))) return 0;
  } else if (PyLong_Check(object)) {
    in->ints[i] = PyLong_AsLongLong(object);
    return in->ints[i] == -1 && PyErr_Occurred() != NULL ? -1 : 0;
  }
  in->in[i] = &in->tensors[i];
  if (guard_is_device_plain(object) &&
      tensor_read(object, false, &in->tensors[i]))
    return 0;
  return input_resolve(resolve, object, in, &in->tensors[i]);
}

#endif  // OG_TORCH_GRAPH_INPUTS_H
