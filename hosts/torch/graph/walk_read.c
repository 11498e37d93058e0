// SPDX-License-Identifier: Apache-2.0
// What a walk reads of Python's objects: sizes, fake tensors, arguments.
//
// Sizes and types are read from the fake tensors that AOTAutograd left with the
// nodes, through their handles where the sizes are numbers.

#include "torch/graph/walk_read.h"

#include <stdlib.h>
#include <string.h>

#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/pool.h"
#include "torch/base/types.h"
#include "torch/device/device.h"
#include "torch/graph/constant.h"
#include "torch/graph/node.h"

// --- Names -------------------------------------------------------------------

struct walk_names walk_names;

int walk_names_make(void) {
  if (walk_names.op != NULL) return 0;
#define X(n)                                                               \
  if (walk_names.n == NULL) walk_names.n = PyUnicode_InternFromString(#n); \
  if (walk_names.n == NULL) return -1;
  WALK_NAMES(X)
#undef X
  return 0;
}

// Raises what Python takes as "this graph is not for the engine".
int walk_refuse(const walk *w, const char *format, PyObject *object) {
  (void)w;
  PyErr_Format(PyExc_NotImplementedError, format, object);
  return -1;
}

int walk_engine(walk *w, og_status status) {
  if (status == OG_OK) return 0;
  error_raise(&w->error);
  return -1;
}

// --- Sizes -------------------------------------------------------------------

static int size_number(walk *w, int64_t number, opgraft_size *out) {
  return walk_engine(w,
                     opgraft_graph_size(w->out->graph, number, out, &w->error));
}

// `text`: what sympy prints.
static int size_parse(walk *w, PyObject *text, opgraft_size *out) {
  const char *bytes = PyUnicode_AsUTF8AndSize(text, NULL);
  if (bytes == NULL) return -1;
  if (opgraft_graph_size_parse(w->out->graph, bytes, out, &w->error) == OG_OK)
    return 0;
  return walk_refuse(w, "a size is %U, which has no form in the engine", text);
}

// The expression behind a SymInt, which is quick to compare; a new reference,
// or NULL where this kind has none.
static PyObject *size_expression(PyObject *object) {
  PyObject *node = PyObject_GetAttr(object, walk_names.node);
  PyObject *expression =
      node != NULL ? PyObject_GetAttr(node, walk_names._expr) : NULL;
  Py_XDECREF(node);
  if (expression == NULL) PyErr_Clear();
  return expression;
}

// Printing an expression takes sympy 20 us and more, so each is printed once.
static int size_text(walk *w, PyObject *object, opgraft_size *out) {
  PyObject *key = size_expression(object);
  PyObject *known = key != NULL ? PyDict_GetItem(w->sizes, key) : NULL;
  w->out->result_bytes = -1;
  if (known != NULL) {
    Py_DECREF(key);
    *out = (opgraft_size)PyLong_AsLong(known);
    return 0;
  }
  PyObject *text =
      PyObject_CallFunctionObjArgs(w->size_text, object, (PyObject *)NULL);
  int status = text != NULL ? size_parse(w, text, out) : -1;
  PyObject *id = status == 0 ? PyLong_FromLong(*out) : NULL;
  if (status == 0 &&
      (id == NULL || (key != NULL && PyDict_SetItem(w->sizes, key, id) != 0)))
    status = -1;
  Py_XDECREF(id);
  Py_XDECREF(text);
  Py_XDECREF(key);
  return status;
}

int walk_size_read(walk *w, PyObject *object, opgraft_size *out) {
  if (PyLong_CheckExact(object)) {
    const int64_t number = PyLong_AsLongLong(object);
    return PyErr_Occurred() != NULL ? -1 : size_number(w, number, out);
  }
  return size_text(w, object, out);
}

// --- What a fake tensor says -------------------------------------------------

static opgraft_size *sizes_alloc(walk *w, size_t rank) {
  return pool_alloc(&w->memory, rank + 1, sizeof(opgraft_size));
}

static int sizes_from_numbers(walk *w, const int64_t *numbers, int64_t rank,
                              const opgraft_size **out) {
  opgraft_size *sizes = sizes_alloc(w, (size_t)rank);
  if (sizes == NULL) return -1;
  for (int64_t d = 0; d < rank; ++d)
    if (size_number(w, numbers[d], &sizes[d]) != 0) return -1;
  *out = sizes;
  return 0;
}

// Takes the tuple.
static int sizes_from_tuple(walk *w, PyObject *tuple, int32_t *out_rank,
                            const opgraft_size **out) {
  if (tuple == NULL) return -1;
  const Py_ssize_t rank = PyTuple_Size(tuple);
  opgraft_size *sizes = sizes_alloc(w, (size_t)rank);
  int status = sizes == NULL ? -1 : 0;
  for (Py_ssize_t d = 0; status == 0 && d < rank; ++d)
    status = walk_size_read(w, PyTuple_GetItem(tuple, d), &sizes[d]);
  Py_DECREF(tuple);
  *out_rank = (int32_t)rank;
  *out = sizes;
  return status;
}

static PyObject *method_call(PyObject *object, PyObject *name) {
  return PyObject_CallMethodObjArgs(object, name, (PyObject *)NULL);
}

int walk_device_read(walk *w, PyObject *val, og_device *out) {
  PyObject *device = PyObject_GetAttr(val, walk_names.fake_device);
  if (device == NULL) {
    PyErr_Clear();
    device = PyObject_GetAttr(val, walk_names.device);
  }
  if (device == NULL) return -1;
  int status = device_from_object(device, out);
  if (status == 0)
    status = walk_refuse(w, "a tensor lies on device %S", device);
  Py_DECREF(device);
  return status < 0 ? -1 : 0;
}

static void bytes_count(walk *w, const int64_t *sizes, int64_t rank,
                        og_dtype dtype) {
  int64_t bytes = (dtype.bits + 7) / 8;
  for (int64_t d = 0; d < rank; ++d) bytes *= sizes[d];
  if (w->out->result_bytes >= 0) w->out->result_bytes += bytes;
}

static int info_from_handle(walk *w, tensor_handle handle,
                            opgraft_value_info *info) {
  int64_t rank, *sizes, *strides, offset;
  int32_t code, layout;
  if (shim.aoti_torch_get_layout(handle, &layout) != 0 ||
      layout != shim.aoti_torch_layout_strided())
    return walk_refuse(w, "a tensor is not strided", NULL);
  if (shim.aoti_torch_get_dim(handle, &rank) != 0 ||
      shim.aoti_torch_get_sizes(handle, &sizes) != 0 ||
      shim.aoti_torch_get_strides(handle, &strides) != 0 ||
      shim.aoti_torch_get_storage_offset(handle, &offset) != 0 ||
      shim.aoti_torch_get_dtype(handle, &code) != 0 ||
      dtype_from_shim(code, &info->dtype) != 0)
    return walk_refuse(w, "a tensor has a type that the engine lacks", Py_None);
  info->ndim = (int32_t)rank;
  bytes_count(w, sizes, rank, info->dtype);
  if (size_number(w, offset, &info->offset) != 0 ||
      sizes_from_numbers(w, sizes, rank, &info->shape) != 0)
    return -1;
  return sizes_from_numbers(w, strides, rank, &info->strides);
}

static int layout_check(walk *w, PyObject *layout) {
  if (layout == w->strided) return 0;
  PyObject *text = PyObject_Str(layout);
  if (text == NULL) return -1;
  const bool is_strided =
      PyUnicode_CompareWithASCIIString(text, "torch.strided") == 0;
  Py_DECREF(text);
  if (!is_strided) return walk_refuse(w, "a tensor has the layout %S", layout);
  w->strided = layout;  // torch keeps it
  return 0;
}

static int info_from_attributes(walk *w, PyObject *val,
                                opgraft_value_info *info) {
  PyObject *dtype = PyObject_GetAttr(val, walk_names.dtype);
  PyObject *layout = PyObject_GetAttr(val, walk_names.layout);
  PyObject *offset = NULL;
  int32_t rank;
  int status = dtype != NULL && layout != NULL ? layout_check(w, layout) : -1;
  if (status == 0 && dtype_from_object(dtype, &info->dtype) != 0)
    status = walk_refuse(w, "a tensor has the type %S, which the engine lacks",
                         dtype);
  if (status == 0)
    status = sizes_from_tuple(w, PyObject_GetAttr(val, walk_names.shape),
                              &info->ndim, &info->shape);
  if (status == 0)
    status = sizes_from_tuple(w, method_call(val, walk_names.stride), &rank,
                              &info->strides);
  if (status == 0) offset = method_call(val, walk_names.storage_offset);
  if (status == 0)
    status = offset != NULL ? walk_size_read(w, offset, &info->offset) : -1;
  w->out->result_bytes = -1;
  Py_XDECREF(offset);
  Py_XDECREF(dtype);
  Py_XDECREF(layout);
  return status;
}

int walk_info_read(walk *w, PyObject *val, opgraft_value_info *info) {
  *info = (opgraft_value_info){.struct_size = sizeof *info};
  if (walk_device_read(w, val, &info->device) != 0) return -1;
  PyObject *symbolic =
      PyObject_GetAttr(val, walk_names._has_symbolic_sizes_strides);
  if (symbolic == NULL) return -1;
  const tensor_handle handle = guard_handle(val);
  const bool is_plain = symbolic == Py_False && handle != NULL;
  Py_DECREF(symbolic);
  return is_plain ? info_from_handle(w, handle, info)
                  : info_from_attributes(w, val, info);
}

int walk_is_tensor(const walk *w, PyObject *object) {
  return PyObject_IsInstance(object, w->tensor_type);
}

// --- Nodes -------------------------------------------------------------------

int32_t walk_number_new(walk *w, PyObject *node) {
  PyObject *number = PyLong_FromLong(w->used);
  if (number == NULL) return -1;
  const int status = PyDict_SetItem(w->numbers, node, number);
  Py_DECREF(number);
  return status == 0 ? w->used++ : -1;
}

int32_t walk_number_find(const walk *w, PyObject *node) {
  PyObject *number = PyDict_GetItem(w->numbers, node);
  if (number != NULL) return (int32_t)PyLong_AsLong(number);
  PyErr_Format(PyExc_RuntimeError, "opgraft: node %S is used before it is made",
               node);
  return -1;
}

int walk_constant_set(walk *w, int32_t number, PyObject *object) {
  opgraft_arg arg = {0};
  const constants c = {&w->memory, w->context->others};
  if (constant_read(&c, object, &arg) != 0) return -1;
  return walk_engine(w,
                     opgraft_builder_set(w->builder, number, &arg, &w->error));
}

// --- Arguments ---------------------------------------------------------------

static Py_ssize_t items_count(PyObject *object) {
  return PyTuple_Check(object) ? PyTuple_Size(object) : PyList_Size(object);
}

// Borrowed.
static PyObject *item_get(PyObject *object, Py_ssize_t i) {
  return PyTuple_Check(object) ? PyTuple_GetItem(object, i)
                               : PyList_GetItem(object, i);
}

static int list_add(walk *w, const char *name, PyObject *object) {
  if (walk_engine(w, opgraft_builder_open_list(w->builder, name, &w->error)) !=
      0)
    return -1;
  const Py_ssize_t count = items_count(object);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (walk_arg_add(w, NULL, item_get(object, i)) != 0) return -1;
  return walk_engine(w, opgraft_builder_close_list(w->builder, &w->error));
}

static int device_read(walk *w, PyObject *object, opgraft_arg *out) {
  char name[GRAPH_DEVICE_NAME];
  const int status = device_from_object(object, &out->device);
  if (status == 0) return walk_refuse(w, "a node asks for device %S", object);
  if (status < 0) return -1;
  out->kind = OPGRAFT_ARG_DEVICE;
  graph_device_name(out->device, name);
  return PyDict_SetItemString(w->context->others, name, object);
}

static int plain_read(walk *w, PyObject *object, opgraft_arg *out) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  if (type == w->symint_type) {
    out->kind = OPGRAFT_ARG_SIZE;
    return size_text(w, object, &out->size);
  }
  if (type == w->device_type) return device_read(w, object, out);
  const constants c = {&w->memory, w->context->others};
  return constant_read(&c, object, out);
}

int walk_arg_add(walk *w, const char *name, PyObject *object) {
  if ((PyObject *)Py_TYPE(object) == w->node_type) {
    const int32_t number = walk_number_find(w, object);
    return number < 0
               ? -1
               : walk_engine(w, opgraft_builder_add_node_arg(
                                    w->builder, name, number, &w->error));
  }
  if (PyTuple_CheckExact(object) || PyList_Check(object))
    return list_add(w, name, object);
  opgraft_arg arg = {.name = name};
  if (plain_read(w, object, &arg) != 0) return -1;
  return walk_engine(w, opgraft_builder_add_arg(w->builder, &arg, &w->error));
}

int walk_args_add(walk *w, PyObject *positional, PyObject *named) {
  const Py_ssize_t count = PyTuple_Size(positional);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (walk_arg_add(w, NULL, PyTuple_GetItem(positional, i)) != 0) return -1;
  while (PyDict_Next(named, &at, &key, &value)) {
    const char *text = PyUnicode_AsUTF8AndSize(key, NULL);
    if (text == NULL || walk_arg_add(w, text, value) != 0) return -1;
  }
  return 0;
}

// --- Results -----------------------------------------------------------------

static int results_add(walk *w, PyObject *val, PyObject *views, int32_t which) {
  if (walk_engine(w, opgraft_builder_open_results(w->builder, &w->error)) != 0)
    return -1;
  const int32_t count = (int32_t)items_count(val);
  for (int32_t i = 0; i < count; ++i)
    if (walk_result_add(w, item_get(val, i), views, which < 0 ? i : which) != 0)
      return -1;
  return walk_engine(w, opgraft_builder_close_results(w->builder, &w->error));
}

int walk_result_add(walk *w, PyObject *val, PyObject *views, int32_t which) {
  opgraft_value_info info;
  opgraft_builder *builder = w->builder;
  if (val == Py_None)
    return walk_engine(w, opgraft_builder_add_result(builder, NULL, &w->error));
  if (PyTuple_Check(val) || PyList_Check(val))
    return results_add(w, val, views, which);
  if ((PyObject *)Py_TYPE(val) == w->symint_type || PyLong_CheckExact(val)) {
    opgraft_arg size = {.kind = OPGRAFT_ARG_SIZE};
    if (walk_size_read(w, val, &size.size) != 0) return -1;
    return walk_engine(
        w, opgraft_builder_add_known_result(builder, &size, &w->error));
  }
  if (walk_is_tensor(w, val) != 1)
    return walk_refuse(w, "a node gives %R, which is not a tensor", val);
  if (walk_info_read(w, val, &info) != 0) return -1;
  const Py_ssize_t at = which < 0 ? 0 : which;
  if (views != Py_None && at < PyTuple_Size(views))
    info.view_of = (int32_t)PyLong_AsLong(PyTuple_GetItem(views, at));
  return walk_engine(w, opgraft_builder_add_result(builder, &info, &w->error));
}
