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
#include "torch/graph/constant.h"

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

// sympy prints 15 digits of a float, so Python prints what has one.
static PyObject *size_print(const walk *w, PyObject *object) {
  PyObject *text = PyObject_Str(object);
  const char *bytes = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  if (bytes == NULL || strchr(bytes, '.') == NULL) return text;
  Py_DECREF(text);
  return PyObject_CallFunctionObjArgs(w->size_text, object, (PyObject *)NULL);
}

// Printing an expression takes sympy 20 us, so each is printed once.
static int size_text(walk *w, PyObject *object, opgraft_size *out) {
  PyObject *key = size_expression(object);
  PyObject *known = key != NULL ? PyDict_GetItem(w->sizes, key) : NULL;
  w->out->result_bytes = -1;
  if (known != NULL) {
    Py_DECREF(key);
    *out = (opgraft_size)PyLong_AsLong(known);
    return 0;
  }
  PyObject *text = size_print(w, object);
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

int walk_device_check(walk *w, PyObject *val) {
  PyObject *device = PyObject_GetAttr(val, walk_names.fake_device);
  if (device == NULL) {
    PyErr_Clear();
    device = PyObject_GetAttr(val, walk_names.device);
  }
  if (device == NULL) return -1;
  PyObject *type = PyObject_GetAttr(device, walk_names.type);
  const bool is_cpu =
      type != NULL && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
  const int status =
      is_cpu ? 0 : walk_refuse(w, "a tensor lies on device %S", device);
  Py_DECREF(device);
  Py_XDECREF(type);
  return status;
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
  if (walk_device_check(w, val) != 0) return -1;
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

// --- Entries -----------------------------------------------------------------

entry *walk_entry_new(walk *w, PyObject *node) {
  PyObject *index = PyLong_FromLong(w->used);
  if (index == NULL) return NULL;
  const int status = PyDict_SetItem(w->entries, node, index);
  Py_DECREF(index);
  return status == 0 ? &w->table[w->used++] : NULL;
}

entry *walk_entry_find(const walk *w, PyObject *node) {
  PyObject *index = PyDict_GetItem(w->entries, node);
  if (index == NULL) {
    PyErr_Format(PyExc_RuntimeError,
                 "opgraft: node %S is used before it is "
                 "made",
                 node);
    return NULL;
  }
  return &w->table[PyLong_AsLong(index)];
}

// --- Arguments ---------------------------------------------------------------

static int entry_arg(walk *w, const entry *e, opgraft_arg *out) {
  switch (e->kind) {
    case ENTRY_VALUE:
      out->kind = OPGRAFT_ARG_VALUE;
      out->value = e->id;
      return 0;
    case ENTRY_SIZE:
      out->kind = OPGRAFT_ARG_SIZE;
      out->size = e->id;
      return 0;
    case ENTRY_LIST: {
      opgraft_arg *list =
          pool_alloc(&w->memory, (size_t)e->count + 1, sizeof *list);
      if (list == NULL) return -1;
      for (int32_t i = 0; i < e->count; ++i)
        if (entry_arg(w, &e->list[i], &list[i]) != 0) return -1;
      out->kind = OPGRAFT_ARG_LIST;
      out->list = list;
      out->count = e->count;
      return 0;
    }
    case ENTRY_OBJECT: {
      const constants c = {&w->memory, w->context->others};
      return constant_read(&c, e->object, out);
    }
    default:
      out->kind = OPGRAFT_ARG_NONE;
      return 0;
  }
}

static int list_read(walk *w, PyObject *object, opgraft_arg *out, int depth) {
  const bool is_tuple = PyTuple_Check(object);
  const Py_ssize_t count =
      is_tuple ? PyTuple_Size(object) : PyList_Size(object);
  opgraft_arg *list = pool_alloc(&w->memory, (size_t)count + 1, sizeof *list);
  if (list == NULL) return -1;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (walk_arg_read(
            w,
            is_tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i),
            &list[i], depth + 1) != 0)
      return -1;
  out->kind = OPGRAFT_ARG_LIST;
  out->list = list;
  out->count = (int32_t)count;
  return 0;
}

static int device_read(walk *w, PyObject *object, opgraft_arg *out) {
  PyObject *type = PyObject_GetAttr(object, walk_names.type);
  const bool is_cpu =
      type != NULL && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
  Py_XDECREF(type);
  if (!is_cpu) return walk_refuse(w, "a node asks for device %S", object);
  out->kind = OPGRAFT_ARG_DEVICE;
  out->device = (og_device){OG_CPU, 0};
  return PyDict_SetItemString(w->context->others, "device cpu", object);
}

int walk_arg_read(walk *w, PyObject *object, opgraft_arg *out, int depth) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  if (type == w->node_type) {
    const entry *e = walk_entry_find(w, object);
    return e == NULL ? -1 : entry_arg(w, e, out);
  }
  if (PyTuple_CheckExact(object) || PyList_Check(object))
    return depth < DEPTH_MAX ? list_read(w, object, out, depth)
                             : walk_refuse(w, "lists too deep in %S", object);
  if (type == w->symint_type) {
    out->kind = OPGRAFT_ARG_SIZE;
    return size_text(w, object, &out->size);
  }
  if (type == w->device_type) return device_read(w, object, out);
  const constants c = {&w->memory, w->context->others};
  return constant_read(&c, object, out);
}

// Positional ones, then named ones.
int walk_args_read(walk *w, PyObject *positional, PyObject *named,
                   opgraft_arg *out, int32_t *out_count) {
  const Py_ssize_t count = PyTuple_Size(positional);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if (count + PyDict_Size(named) > ARG_MAX)
    return walk_refuse(w, "a node has too many arguments", NULL);
  *out_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    opgraft_arg *arg = &out[(*out_count)++];
    *arg = (opgraft_arg){0};
    if (walk_arg_read(w, PyTuple_GetItem(positional, i), arg, 0) != 0)
      return -1;
  }
  while (PyDict_Next(named, &at, &key, &value)) {
    opgraft_arg *arg = &out[(*out_count)++];
    const char *text = PyUnicode_AsUTF8AndSize(key, NULL);
    if (text == NULL) return -1;
    *arg = (opgraft_arg){.name = pool_string(&w->memory, text)};
    if (arg->name == NULL || walk_arg_read(w, value, arg, 0) != 0) return -1;
  }
  return 0;
}

// --- Results -----------------------------------------------------------------

opgraft_value_info *walk_result_next(walk *w) {
  if (w->result_count == RESULT_MAX) {
    walk_refuse(w, "a node has too many results", NULL);
    return NULL;
  }
  opgraft_value_info *info = &w->results[w->result_count++];
  *info = (opgraft_value_info){.struct_size = sizeof *info, .ndim = -1};
  return info;
}

// Fills `e` with the shape of `val`; tensors become results, whose ids are
// their positions until results_name. `views`: by the schema's result.
int walk_result_read(walk *w, PyObject *val, PyObject *views, int32_t which,
                     entry *e) {
  *e = (entry){.kind = ENTRY_NONE};
  if (val == Py_None) return walk_result_next(w) != NULL ? 0 : -1;
  if (PyTuple_Check(val) || PyList_Check(val)) {
    const bool is_tuple = PyTuple_Check(val);
    e->kind = ENTRY_LIST;
    e->count = (int32_t)(is_tuple ? PyTuple_Size(val) : PyList_Size(val));
    e->list = pool_alloc(&w->memory, (size_t)e->count + 1, sizeof *e->list);
    if (e->list == NULL) return -1;
    for (int32_t i = 0; i < e->count; ++i)
      if (walk_result_read(
              w, is_tuple ? PyTuple_GetItem(val, i) : PyList_GetItem(val, i),
              views, which < 0 ? i : which, &e->list[i]) != 0)
        return -1;
    return 0;
  }
  if ((PyObject *)Py_TYPE(val) == w->symint_type || PyLong_CheckExact(val)) {
    e->kind = ENTRY_SIZE;
    return walk_size_read(w, val, &e->id);
  }
  if (walk_is_tensor(w, val) != 1)
    return walk_refuse(w, "a node gives %R, which is no tensor", val);
  opgraft_value_info *info = walk_result_next(w);
  if (info == NULL) return -1;
  e->kind = ENTRY_VALUE;
  e->id = w->result_count - 1;
  if (walk_info_read(w, val, info) != 0) return -1;
  const Py_ssize_t at = which < 0 ? 0 : which;
  if (views != Py_None && at < PyTuple_Size(views))
    info->view_of = (int32_t)PyLong_AsLong(PyTuple_GetItem(views, at));
  return 0;
}

void walk_results_name(entry *e, const opgraft_value *ids) {
  if (e->kind == ENTRY_VALUE) e->id = ids[e->id];
  for (int32_t i = 0; e->kind == ENTRY_LIST && i < e->count; ++i)
    walk_results_name(&e->list[i], ids);
}
