// SPDX-License-Identifier: Apache-2.0
// Walks an FX graph and emits a record for each node.
//
// One pass over the nodes, attributes read once. What a target is (its name,
// which results are views, whether it is random) is asked of Python once per
// operator (_targets.py); sizes and types are read from the fake tensors that
// AOTAutograd left with the nodes, through their handles where the sizes are
// numbers.

#include <stdlib.h>
#include <string.h>

#include "walk.h"

// What a node stands for. Python's _targets.py says the first ones of targets.
enum {
  TARGET_OPERATOR = 0,
  TARGET_GETITEM,
  TARGET_SKIP,            // a check that the guards made
  TARGET_SIZE,            // arithmetic on sizes
  TARGET_FUNCTIONALIZED,  // auto_functionalized_v2
  TARGET_EFFECTS,         // with_effects(token, operator, ...)
};

// --- Names -------------------------------------------------------------------

// clang-format off
#define NAMES(X)                                           \
  X(op) X(target) X(args) X(kwargs) X(meta) X(val)         \
  X(stack_trace) X(shape) X(stride) X(storage_offset)      \
  X(dtype) X(fake_device) X(device) X(type) X(layout)      \
  X(_has_symbolic_sizes_strides) X(node) X(_expr)          \
  X(nn_module_stack) X(fwd_nn_module_stack)
// clang-format on
static struct {
#define X(n) PyObject *n;
  NAMES(X)
#undef X
} names;

static int names_make(void) {
  if (names.op != NULL) return 0;
#define X(n)                                                     \
  if (names.n == NULL) names.n = PyUnicode_InternFromString(#n); \
  if (names.n == NULL) return -1;
  NAMES(X)
#undef X
  return 0;
}

// Raises what Python takes as "this graph is not for the engine".
int walk_refuse(const walk *w, const char *format, PyObject *object) {
  (void)w;
  PyErr_Format(PyExc_NotImplementedError, format, object);
  return -1;
}

static int engine(walk *w, og_status status) {
  if (status == OG_OK) return 0;
  graph_error(&w->error);
  return -1;
}

// --- Sizes -------------------------------------------------------------------

static int size_number(walk *w, int64_t number, opgraft_size *out) {
  return engine(w, opgraft_graph_size(w->out->graph, number, out, &w->error));
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
  PyObject *node = PyObject_GetAttr(object, names.node);
  PyObject *expression =
      node != NULL ? PyObject_GetAttr(node, names._expr) : NULL;
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

static int size_read(walk *w, PyObject *object, opgraft_size *out) {
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
    status = size_read(w, PyTuple_GetItem(tuple, d), &sizes[d]);
  Py_DECREF(tuple);
  *out_rank = (int32_t)rank;
  *out = sizes;
  return status;
}

static PyObject *method_call(PyObject *object, PyObject *name) {
  return PyObject_CallMethodObjArgs(object, name, (PyObject *)NULL);
}

static int device_check(walk *w, PyObject *val) {
  PyObject *device = PyObject_GetAttr(val, names.fake_device);
  if (device == NULL) {
    PyErr_Clear();
    device = PyObject_GetAttr(val, names.device);
  }
  if (device == NULL) return -1;
  PyObject *type = PyObject_GetAttr(device, names.type);
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
    return walk_refuse(w, "a tensor is not strided%S", w->out->captured);
  if (shim.aoti_torch_get_dim(handle, &rank) != 0 ||
      shim.aoti_torch_get_sizes(handle, &sizes) != 0 ||
      shim.aoti_torch_get_strides(handle, &strides) != 0 ||
      shim.aoti_torch_get_storage_offset(handle, &offset) != 0 ||
      shim.aoti_torch_get_dtype(handle, &code) != 0 ||
      dtype_from_shim(code, &info->dtype) != 0)
    return walk_refuse(w, "a tensor has a type that the engine lacks%S",
                       Py_None);
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
  PyObject *dtype = PyObject_GetAttr(val, names.dtype);
  PyObject *layout = PyObject_GetAttr(val, names.layout);
  PyObject *offset = NULL;
  int32_t rank;
  int status = dtype != NULL && layout != NULL ? layout_check(w, layout) : -1;
  if (status == 0 && dtype_from_object(dtype, &info->dtype) != 0)
    status = walk_refuse(w, "a tensor has the type %S, which the engine lacks",
                         dtype);
  if (status == 0)
    status = sizes_from_tuple(w, PyObject_GetAttr(val, names.shape),
                              &info->ndim, &info->shape);
  if (status == 0)
    status = sizes_from_tuple(w, method_call(val, names.stride), &rank,
                              &info->strides);
  if (status == 0) offset = method_call(val, names.storage_offset);
  if (status == 0)
    status = offset != NULL ? size_read(w, offset, &info->offset) : -1;
  w->out->result_bytes = -1;
  Py_XDECREF(offset);
  Py_XDECREF(dtype);
  Py_XDECREF(layout);
  return status;
}

int walk_info_read(walk *w, PyObject *val, opgraft_value_info *info) {
  *info = (opgraft_value_info){.struct_size = sizeof *info};
  if (device_check(w, val) != 0) return -1;
  PyObject *symbolic = PyObject_GetAttr(val, names._has_symbolic_sizes_strides);
  if (symbolic == NULL) return -1;
  const tensor_handle handle = guard_handle(val);
  const bool is_plain = symbolic == Py_False && handle != NULL;
  Py_DECREF(symbolic);
  return is_plain ? info_from_handle(w, handle, info)
                  : info_from_attributes(w, val, info);
}

static int is_tensor(const walk *w, PyObject *object) {
  return PyObject_IsInstance(object, w->tensor_type);
}

// --- Entries -----------------------------------------------------------------

static entry *entry_new(walk *w, PyObject *node) {
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
  PyObject *type = PyObject_GetAttr(object, names.type);
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
static int args_read(walk *w, PyObject *positional, PyObject *named,
                     opgraft_arg *out, int32_t *out_count) {
  const Py_ssize_t count = PyTuple_Size(positional);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if (count + PyDict_Size(named) > ARG_MAX)
    return walk_refuse(w, "a node has too many arguments%S", Py_None);
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
    walk_refuse(w, "a node has too many results%S", Py_None);
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
    return size_read(w, val, &e->id);
  }
  if (is_tensor(w, val) != 1)
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

// --- Records -----------------------------------------------------------------

// The last frame of the node's stack trace that someone wrote: 'File
// "model.py", line 12, in'. An operator's own Python function is generated.
static const char *frame_find(PyObject *meta) {
  PyObject *trace = PyDict_GetItem(meta, names.stack_trace);
  if (trace == NULL || !PyUnicode_Check(trace)) return NULL;
  const char *text = PyUnicode_AsUTF8AndSize(trace, NULL), *found = NULL;
  for (const char *at = text; at != NULL && (at = strstr(at, "File \"")); ++at)
    if (strncmp(at + 6, "<opgraft ", 9) != 0) found = at + 6;
  return found;
}

// The innermost module that the node, or what it is the gradient of, came from:
// "encoder.0" of "L['self'].encoder.0". NULL: the model itself, or none.
static const char *module_find(PyObject *meta) {
  PyObject *stack = PyDict_GetItem(meta, names.nn_module_stack);
  if (stack == NULL) stack = PyDict_GetItem(meta, names.fwd_nn_module_stack);
  if (stack == NULL || !PyDict_Check(stack) || PyDict_Size(stack) == 0)
    return NULL;
  PyObject *modules = PyDict_Values(stack);
  if (modules == NULL) return NULL;
  PyObject *last = PyList_GetItem(modules, PyList_Size(modules) - 1);
  PyObject *path = last != NULL && PyTuple_Check(last) && PyTuple_Size(last) > 0
                       ? PyTuple_GetItem(last, 0)
                       : NULL;
  const char *text = path != NULL && PyUnicode_Check(path)
                         ? PyUnicode_AsUTF8AndSize(path, NULL)
                         : NULL;
  Py_DECREF(modules);  // the stack holds what `text` is a part of
  if (text != NULL && strncmp(text, "L[", 2) == 0) {
    text = strchr(text, ']');
    if (text != NULL) text += text[1] == '.' ? 2 : 1;
  }
  return text != NULL && *text != '\0' ? text : NULL;
}

// Where the node comes from: file and line, else the module's path with line 0.
void walk_source_read(walk *w, PyObject *meta, opgraft_record *record) {
  static const char prefix[] = "module ";
  const char *frame = frame_find(meta);
  const char *module = frame == NULL ? module_find(meta) : NULL;
  const char *found = frame != NULL ? frame : module;
  const char *end = frame != NULL    ? strchr(frame, '"')
                    : module != NULL ? module + strlen(module)
                                     : NULL;
  PyErr_Clear();
  if (end == NULL) return;
  const size_t before = frame != NULL ? 0 : sizeof prefix - 1;
  const size_t length = (size_t)(end - found);
  char *file = pool_alloc(&w->memory, before + length + 1, 1);
  if (file == NULL) {
    PyErr_Clear();
    return;
  }
  memcpy(file, prefix, before);
  memcpy(file + before, found, length);
  record->file = file;
  if (frame != NULL && strncmp(end, "\", line ", 8) == 0)
    record->line = (int32_t)strtol(end + 8, NULL, 10);
}

int walk_record_add(walk *w, opgraft_record *record, PyObject *target,
                    opgraft_value *ids) {
  record->struct_size = sizeof *record;
  record->results = w->results;
  record->result_count = w->result_count;
  record->host_node = (int32_t)PyList_Size(w->context->targets);
  if (PyList_Append(w->context->targets, target) != 0) return -1;
  return engine(w,
                opgraft_graph_add_node(w->out->graph, record, ids, &w->error));
}

int walk_emit(walk *w, const fx_node *n, PyObject *target,
              PyObject *description, PyObject *args, PyObject *val, entry *e) {
  opgraft_arg list[ARG_MAX];
  opgraft_value ids[RESULT_MAX];
  opgraft_record record = {.args = list};
  w->result_count = 0;
  record.name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(description, 1), NULL);
  record.flags = (uint32_t)PyLong_AsLong(PyTuple_GetItem(description, 3));
  PyObject *views = PyTuple_GetItem(description, 2);
  const int32_t which = views != Py_None && PyTuple_Size(views) == 1 ? 0 : -1;
  if (record.name == NULL ||
      args_read(w, args, n->kwargs, list, &record.arg_count) != 0 ||
      walk_result_read(w, val, views, which, e) != 0)
    return -1;
  if (val == Py_None) w->result_count = 0;
  walk_source_read(w, n->meta, &record);
  if (walk_record_add(w, &record, target, ids) != 0) return -1;
  walk_results_name(e, ids);
  return 0;
}

static int emit_getitem(walk *w, const fx_node *n, entry *e) {
  const entry *from = walk_entry_find(w, PyTuple_GetItem(n->args, 0));
  const long index = PyLong_AsLong(PyTuple_GetItem(n->args, 1));
  if (from == NULL || (index == -1 && PyErr_Occurred() != NULL)) return -1;
  if (from->kind != ENTRY_LIST || index < 0 || index >= from->count)
    return walk_refuse(w, "node %S takes an item of what is no list", n->node);
  *e = from->list[index];
  return 0;
}

static bool is_symbolic(const walk *w, PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return type == w->symint_type || type == w->symfloat_type;
}

static int emit_size(walk *w, const fx_node *n, entry *e) {
  if (is_symbolic(w, n->val) || PyLong_CheckExact(n->val)) {
    e->kind = ENTRY_SIZE;
    return size_read(w, n->val, &e->id);
  }
  if (n->val == Py_None || n->val == Py_True || n->val == Py_False ||
      PyFloat_CheckExact(n->val)) {
    e->kind = ENTRY_OBJECT;
    e->object = n->val;
    return 0;
  }
  return walk_refuse(
      w, "node %S computes with sizes in a way that the engine lacks", n->node);
}

// with_effects(token, operator, arguments...) -> (token, results...)
static int emit_effects(walk *w, const fx_node *n,
                        PyObject *describe_target(walk *, PyObject *),
                        entry *e) {
  const Py_ssize_t count = PyTuple_Size(n->args);
  PyObject *target = count > 1 ? PyTuple_GetItem(n->args, 1) : NULL;
  PyObject *description = target != NULL ? describe_target(w, target) : NULL;
  PyObject *args =
      description != NULL ? PyTuple_GetSlice(n->args, 2, count) : NULL;
  if (args == NULL) return -1;
  entry inner = {.kind = ENTRY_NONE};
  const Py_ssize_t results = PyTuple_Check(n->val) ? PyTuple_Size(n->val) : 0;
  PyObject *rest = results > 0 ? PyTuple_GetSlice(n->val, 1, results) : NULL;
  PyObject *flagged = Py_BuildValue(
      "(OOOi)", PyTuple_GetItem(description, 0),
      PyTuple_GetItem(description, 1), PyTuple_GetItem(description, 2),
      OPGRAFT_RECORD_SIDE_EFFECT |
          (int)PyLong_AsLong(PyTuple_GetItem(description, 3)));
  int status = rest != NULL && flagged != NULL
                   ? walk_emit(w, n, target, flagged, args, rest, &inner)
                   : -1;
  Py_XDECREF(flagged);
  Py_XDECREF(rest);
  Py_DECREF(args);
  if (status != 0) return -1;
  e->kind = ENTRY_LIST;
  e->count = inner.count + 1;
  e->list = pool_alloc(&w->memory, (size_t)e->count, sizeof *e->list);
  if (e->list == NULL) return -1;
  if (inner.count > 0)
    memcpy(e->list + 1, inner.list, (size_t)inner.count * sizeof *e->list);
  return 0;
}

// --- Nodes -------------------------------------------------------------------

static PyObject *describe(walk *w, PyObject *target) {
  PyObject *known = PyDict_GetItem(w->known, target);
  if (known != NULL) return known;
  known = PyObject_CallFunctionObjArgs(w->describe, target, (PyObject *)NULL);
  if (known == NULL) return NULL;
  const int status = PyDict_SetItem(w->known, target, known);
  Py_DECREF(known);  // the dict has it
  return status == 0 ? known : NULL;
}

static int call_add(walk *w, fx_node *n) {
  n->description = describe(w, n->target);
  entry *e = n->description != NULL ? entry_new(w, n->node) : NULL;
  if (e == NULL) return -1;
  switch (PyLong_AsLong(PyTuple_GetItem(n->description, 0))) {
    case TARGET_OPERATOR:
      if (n->val == NULL)
        return walk_refuse(w, "node %S has no value to go by", n->node);
      return walk_emit(w, n, n->target, n->description, n->args, n->val, e);
    case TARGET_GETITEM:
      return emit_getitem(w, n, e);
    case TARGET_SKIP:
      return 0;
    case TARGET_FUNCTIONALIZED:
      return walk_functionalized(w, n, e);
    case TARGET_EFFECTS:
      return emit_effects(w, n, describe, e);
    default:
      if (n->val == NULL)
        return walk_refuse(w, "node %S has no value to go by", n->node);
      return emit_size(w, n, e);
  }
}

static int slot_add(walk *w, int32_t slot) {
  walked *out = w->out;
  if (out->slot_count == out->slot_capacity) {
    const int32_t capacity = out->slot_capacity * 2 + 16;
    int32_t *slots = realloc(out->slots, (size_t)capacity * sizeof *slots);
    if (slots == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    out->slots = slots;
    out->slot_capacity = capacity;
  }
  out->slots[out->slot_count++] = slot;
  return 0;
}

static int tensor_input(walk *w, PyObject *val, const char *name, int32_t slot,
                        bool is_static, entry *e) {
  opgraft_value_info info;
  if (walk_info_read(w, val, &info) != 0) return -1;
  info.flags = is_static ? OPGRAFT_INPUT_STATIC : 0;
  e->kind = ENTRY_VALUE;
  if (slot_add(w, slot) != 0) return -1;
  return engine(w, opgraft_graph_add_input(w->out->graph, name, &info, &e->id,
                                           &w->error));
}

static int placeholder_add(walk *w, const fx_node *n) {
  entry *e = entry_new(w, n->node);
  const int32_t slot = w->out->argument_count++;
  const char *name = PyUnicode_AsUTF8AndSize(n->target, NULL);
  if (e == NULL || name == NULL) return -1;
  if (n->val == NULL || n->val == Py_None) return 0;  // a token, or unused
  if ((PyObject *)Py_TYPE(n->val) == w->symint_type ||
      PyLong_CheckExact(n->val)) {
    opgraft_size size;
    e->kind = ENTRY_SIZE;
    if (size_read(w, n->val, &size) != 0 || slot_add(w, slot) != 0) return -1;
    e->id = size;
    return engine(
        w, opgraft_graph_add_size_input(w->out->graph, name, size, &w->error));
  }
  if (is_tensor(w, n->val) != 1)
    return walk_refuse(w, "an input is %R, which is no tensor", n->val);
  PyObject *position = PyLong_FromLong(slot);
  if (position == NULL) return -1;
  const int is_static = PySequence_Contains(w->statics, position);
  Py_DECREF(position);
  return is_static < 0 ? -1 : tensor_input(w, n->val, name, slot, is_static, e);
}

// A tensor of the graph's own: a small one becomes part of it, another an
// input that the graph holds.
static int constant_tensor(walk *w, PyObject *tensor, const char *name,
                           entry *e) {
  og_tensor view;
  if (device_check(w, tensor) != 0) return -1;
  if (!tensor_read(tensor, guard_is_plain(tensor), &view)) {
    PyErr_Clear();
    return walk_refuse(w, "the graph's tensor %R has no plain memory", tensor);
  }
  e->kind = ENTRY_VALUE;
  if (og_numel(&view) * view.dtype.bits / 8 <= w->context->constant_bytes)
    return engine(w, opgraft_graph_add_constant(w->out->graph, name, &view,
                                                &e->id, &w->error));
  const int32_t slot = -1 - (int32_t)PyList_Size(w->out->captured);
  if (PyList_Append(w->out->captured, tensor) != 0) return -1;
  return tensor_input(w, tensor, name, slot, true, e);
}

// `target` names an attribute; Python gave it as the node's value.
static int attribute_add(walk *w, const fx_node *n, PyObject *attributes) {
  entry *e = entry_new(w, n->node);
  PyObject *object = PyDict_GetItem(attributes, n->target);
  const char *name = PyUnicode_AsUTF8AndSize(n->target, NULL);
  if (e == NULL || name == NULL) return -1;
  if (object == NULL)
    return walk_refuse(w, "the graph's attribute %S is not there", n->target);
  if (is_tensor(w, object) == 1) return constant_tensor(w, object, name, e);
  e->kind = ENTRY_OBJECT;
  e->object = object;
  return 0;
}

static int output_add(walk *w, PyObject *object) {
  opgraft_graph *graph = w->out->graph;
  opgraft_size size;
  if (object == Py_None)
    return engine(w, opgraft_graph_add_output(graph, -1, &w->error));
  if (PyLong_CheckExact(object))
    return size_read(w, object, &size) != 0
               ? -1
               : engine(w,
                        opgraft_graph_add_size_output(graph, size, &w->error));
  if ((PyObject *)Py_TYPE(object) != w->node_type)
    return walk_refuse(w, "an output is %R", object);
  const entry *e = walk_entry_find(w, object);
  if (e == NULL) return -1;
  if (e->kind == ENTRY_VALUE || e->kind == ENTRY_NONE)
    return engine(
        w, opgraft_graph_add_output(graph, e->kind == ENTRY_VALUE ? e->id : -1,
                                    &w->error));
  if (e->kind == ENTRY_SIZE)
    return engine(w, opgraft_graph_add_size_output(graph, e->id, &w->error));
  return walk_refuse(w, "output %S is no tensor", object);
}

static int outputs_add(walk *w, const fx_node *n) {
  PyObject *list = PyTuple_GetItem(n->args, 0);
  const bool is_tuple = PyTuple_Check(list);
  if (!is_tuple && !PyList_Check(list))
    return walk_refuse(w, "the graph gives %R, which is no list", list);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(list) : PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (output_add(w, is_tuple ? PyTuple_GetItem(list, i)
                               : PyList_GetItem(list, i)) != 0)
      return -1;
  return 0;
}

static void fx_node_drop(fx_node *n) {
  Py_XDECREF(n->target);
  Py_XDECREF(n->args);
  Py_XDECREF(n->kwargs);
  Py_XDECREF(n->meta);
}

static int node_add(walk *w, PyObject *object, PyObject *attributes) {
  fx_node n = {.node = object};
  PyObject *op = PyObject_GetAttr(object, names.op);
  n.target = PyObject_GetAttr(object, names.target);
  n.args = PyObject_GetAttr(object, names.args);
  n.kwargs = PyObject_GetAttr(object, names.kwargs);
  n.meta = PyObject_GetAttr(object, names.meta);
  int status = -1;
  if (op != NULL && n.target != NULL && n.args != NULL && n.kwargs != NULL &&
      n.meta != NULL) {
    n.val = PyDict_GetItem(n.meta, names.val);
    if (PyUnicode_CompareWithASCIIString(op, "call_function") == 0)
      status = call_add(w, &n);
    else if (PyUnicode_CompareWithASCIIString(op, "placeholder") == 0)
      status = placeholder_add(w, &n);
    else if (PyUnicode_CompareWithASCIIString(op, "output") == 0)
      status = outputs_add(w, &n);
    else if (PyUnicode_CompareWithASCIIString(op, "get_attr") == 0)
      status = attribute_add(w, &n, attributes);
    else
      status = walk_refuse(w, "a node is a %S", op);
  }
  Py_XDECREF(op);
  fx_node_drop(&n);
  return status;
}

// tools: (describe, functionalized, Node, SymInt, device, Tensor, statics,
// attributes, modules, known, SymFloat, size_text)
static int walk_begin(walk *w, PyObject *name, PyObject *tools,
                      PyObject **out_attributes) {
  PyObject *modules;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  if (text == NULL || names_make() != 0 ||
      !PyArg_ParseTuple(tools, "OOOOOOOOO!O!OO", &w->describe,
                        &w->functionalized, &w->node_type, &w->symint_type,
                        &w->device_type, &w->tensor_type, &w->statics,
                        out_attributes, &PyTuple_Type, &modules, &PyDict_Type,
                        &w->known, &w->symfloat_type, &w->size_text))
    return -1;
  if (engine(w, opgraft_graph_create(text, &w->out->graph, &w->error)) != 0)
    return -1;
  for (Py_ssize_t m = 0; m < PyTuple_Size(modules); ++m) {
    opgraft_module *module = module_get(PyTuple_GetItem(modules, m));
    if (module == NULL || engine(w, opgraft_graph_add_module(
                                        w->out->graph, module, &w->error)) != 0)
      return -1;
  }
  w->entries = PyDict_New();
  w->sizes = PyDict_New();
  w->out->captured = PyList_New(0);
  return w->entries && w->sizes && w->out->captured ? 0 : -1;
}

int graph_walk(PyObject *name, PyObject *nodes, PyObject *tools,
               graph_context *context, walked *out) {
  walk *w = calloc(1, sizeof *w);
  PyObject *attributes;
  *out = (walked){0};
  if (w == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  w->out = out;
  w->context = context;
  int status = walk_begin(w, name, tools, &attributes);
  const Py_ssize_t count = PyList_Size(nodes);
  if (status == 0) {
    w->table = calloc((size_t)count + 1, sizeof *w->table);
    if (w->table == NULL) {
      PyErr_NoMemory();
      status = -1;
    }
  }
  for (Py_ssize_t i = 0; status == 0 && i < count; ++i)
    status = node_add(w, PyList_GetItem(nodes, i), attributes);
  Py_XDECREF(w->entries);
  Py_XDECREF(w->sizes);
  pool_free(&w->memory);
  free(w->table);
  free(w);
  return status;
}
