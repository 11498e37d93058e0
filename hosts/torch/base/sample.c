// SPDX-License-Identifier: Apache-2.0
// Sampled calls as Python objects: what check_torch runs through PyTorch.

#include "torch/base/host.h"

#include <opgraft/sample.h>

#include "torch/base/attr.h"

// (dtype name or (code, bits), sizes, bytes), row-major; None where absent.
static PyObject *tensor_object(const og_tensor *tensor) {
  if (tensor == NULL) Py_RETURN_NONE;
  PyObject *sizes = PyTuple_New(tensor->ndim);
  int64_t dense = 1;
  for (int32_t i = tensor->ndim - 1; sizes != NULL && i >= 0; --i) {
    const int64_t size = tensor->shape[i];
    PyTuple_SetItem(sizes, i, PyLong_FromLongLong(size));
    if (tensor->strides != NULL && size > 1 && tensor->strides[i] != dense) {
      Py_DECREF(sizes);
      return PyErr_Format(PyExc_RuntimeError,
                          "opgraft: a sampled tensor is not row-major");
    }
    dense *= size > 1 ? size : 1;  // an empty dim counts as 1
  }
  return Py_BuildValue("(iiNy#)", tensor->dtype.code, tensor->dtype.bits, sizes,
                       (const char *)og_data(tensor),
                       (Py_ssize_t)(og_numel(tensor) * tensor->dtype.bits / 8));
}

static PyObject *list_object(const og_tensor_list *list) {
  PyObject *out = PyList_New((Py_ssize_t)list->count);
  for (int64_t i = 0; out != NULL && i < list->count; ++i) {
    PyObject *item = tensor_object(list->tensors[i]);
    if (item == NULL) Py_CLEAR(out);
    if (out != NULL) PyList_SetItem(out, (Py_ssize_t)i, item);
  }
  return out;
}

static PyObject *frame_objects(const opgraft_frame *frame, int tensor_count,
                               int attr_count, const char *text) {
  PyObject *tensors = PyList_New(tensor_count);
  PyObject *attrs = PyList_New(attr_count);
  bool is_whole = tensors != NULL && attrs != NULL;
  for (int t = 0; is_whole && t < tensor_count; ++t) {
    const bool is_list = frame->in[t] == NULL && frame->in_list[t].count > 0;
    PyObject *item =
        is_list ? list_object(&frame->in_list[t]) : tensor_object(frame->in[t]);
    is_whole = item != NULL;
    if (is_whole) PyList_SetItem(tensors, t, item);
  }
  for (int a = 0; is_whole && a < attr_count; ++a) {
    PyObject *item = attr_object(&frame->attr[a]);
    is_whole = item != NULL;
    if (is_whole) PyList_SetItem(attrs, a, item);
  }
  if (is_whole) return Py_BuildValue("(sNN)", text, tensors, attrs);
  Py_XDECREF(tensors);
  Py_XDECREF(attrs);
  return NULL;
}

// sample(operator, size, type choice, seed) -> (text, tensors, attributes), or
// None where no call of this size or choice was found.
PyObject *sample_call(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object;
  long long size;
  int type_choice, seed, tensor_count = 0;
  opgraft_frame frame;
  opgraft_error error;
  opgraft_sample *sample;
  if (!PyArg_ParseTuple(arguments, "OLii", &object, &size, &type_choice, &seed))
    return NULL;
  const host_op *op = (const host_op *)(void *)object;
  if (type_choice >= opgraft_sample_type_count(op->op)) Py_RETURN_NONE;
  const opgraft_sample_options options = {
      .struct_size = sizeof options,
      .type_choice = type_choice,
      .size = size,
      .pack_size = size,
      .seed = (uint64_t)seed,
  };
  if (opgraft_sample_create(op->op, &options, &sample, &error) != OG_OK)
    Py_RETURN_NONE;
  for (int32_t p = 0; p < op->param_count; ++p)
    tensor_count += op->params[p].type == OPGRAFT_TYPE_TENSOR;
  opgraft_frame_init(&frame, op->op);
  opgraft_sample_bind(sample, &frame);
  PyObject *out =
      frame_objects(&frame, tensor_count, op->param_count - tensor_count,
                    opgraft_sample_text(sample));
  opgraft_sample_destroy(sample);
  return out;
}
