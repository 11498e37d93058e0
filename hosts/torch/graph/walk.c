// SPDX-License-Identifier: Apache-2.0
// Walks an FX graph and gives each node to the builder (opgraft/builder.h).
//
// One pass over the nodes, attributes read once. What a target is (its name,
// which results are views, whether it is random) is asked of Python once per
// operator (targets.py); sizes and types are read from the fake tensors that
// AOTAutograd left with the nodes, through their handles where the sizes are
// numbers.

#include "torch/graph/walk.h"

#include <stdlib.h>

#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/pool.h"
#include "torch/base/tensor.h"
#include "torch/graph/node.h"
#include "torch/graph/walk_emit.h"
#include "torch/graph/walk_mutation.h"
#include "torch/graph/walk_read.h"

// What a node stands for. Python's targets.py says the first ones of targets.
enum {
  TARGET_OPERATOR = 0,
  TARGET_GETITEM,
  TARGET_SKIP,            // a check that the guards made
  TARGET_SIZE,            // arithmetic on sizes
  TARGET_FUNCTIONALIZED,  // auto_functionalized_v2
  TARGET_EFFECTS,         // with_effects(token, operator, ...)
};

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

// A node stands for a value, a size or nothing.
static int stands_for(walk *w, int32_t number, int16_t kind, int32_t id) {
  opgraft_arg arg = {.kind = kind};
  if (kind == OPGRAFT_ARG_VALUE)
    arg.value = id;
  else if (kind == OPGRAFT_ARG_SIZE)
    arg.size = id;
  return walk_engine(w,
                     opgraft_builder_set(w->builder, number, &arg, &w->error));
}

static int call_add(walk *w, fx_node *n) {
  n->description = describe(w, n->target);
  n->number = n->description != NULL ? walk_number_new(w, n->node) : -1;
  if (n->number < 0) return -1;
  switch (PyLong_AsLong(PyTuple_GetItem(n->description, 0))) {
    case TARGET_OPERATOR:
      if (n->val == NULL)
        return walk_refuse(w, "node %S has no value to go by", n->node);
      return walk_emit(w, n);
    case TARGET_GETITEM:
      return walk_emit_getitem(w, n);
    case TARGET_SKIP:
      return stands_for(w, n->number, OPGRAFT_ARG_NONE, 0);
    case TARGET_FUNCTIONALIZED:
      return walk_functionalized(w, n);
    case TARGET_EFFECTS:
      return walk_emit_effects(w, n, describe);
    default:
      if (n->val == NULL)
        return walk_refuse(w, "node %S has no value to go by", n->node);
      return walk_emit_size(w, n);
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
                        PyObject *flags, int32_t number) {
  opgraft_value_info info;
  opgraft_value value;
  if (walk_info_read(w, val, &info) != 0) return -1;
  info.flags = flags == NULL ? 0
                             : OPGRAFT_INPUT_STATIC |
                                   (uint32_t)PyLong_AsUnsignedLongMask(flags);
  if (slot_add(w, slot) != 0 ||
      walk_engine(w, opgraft_graph_add_input(w->out->graph, name, &info, &value,
                                             &w->error)) != 0)
    return -1;
  return stands_for(w, number, OPGRAFT_ARG_VALUE, value);
}

// What the engine does not compute with: nodes get it from the call.
static int object_input(walk *w, const fx_node *n, int32_t number,
                        int32_t slot) {
  char name[GRAPH_INPUT_NAME];
  graph_input_name(slot, name);
  const opgraft_arg arg = {.kind = OPGRAFT_ARG_OTHER, .s = name};
  PyObject *is_ordered = PyObject_GetAttr(n->val, walk_names.is_ordered);
  Py_XDECREF(is_ordered);
  if (is_ordered == NULL) return -1;
  if (is_ordered == Py_True) {
    if (w->ordered == NULL) w->ordered = PySet_New(NULL);
    if (w->ordered == NULL || PySet_Add(w->ordered, n->node) != 0) return -1;
  }
  return walk_engine(w,
                     opgraft_builder_set(w->builder, number, &arg, &w->error));
}

static int placeholder_add(walk *w, const fx_node *n) {
  const int32_t number = walk_number_new(w, n->node);
  const int32_t slot = w->out->argument_count++;
  const char *name = PyUnicode_AsUTF8AndSize(n->target, NULL);
  if (number < 0 || name == NULL) return -1;
  if (n->val == NULL || n->val == Py_None)  // a token, or unused
    return stands_for(w, number, OPGRAFT_ARG_NONE, 0);
  if ((PyObject *)Py_TYPE(n->val) == w->passed_type)
    return object_input(w, n, number, slot);
  if ((PyObject *)Py_TYPE(n->val) == w->symint_type ||
      PyLong_CheckExact(n->val)) {
    opgraft_size size;
    if (walk_size_read(w, n->val, &size) != 0 || slot_add(w, slot) != 0 ||
        walk_engine(w, opgraft_graph_add_size_input(w->out->graph, name, size,
                                                    &w->error)) != 0)
      return -1;
    return stands_for(w, number, OPGRAFT_ARG_SIZE, size);
  }
  if (walk_is_tensor(w, n->val) != 1)
    return walk_refuse(w, "an input is %R, which is not a tensor", n->val);
  PyObject *position = PyLong_FromLong(slot);
  if (position == NULL) return -1;
  PyObject *flags = PyDict_GetItem(w->statics, position);
  Py_DECREF(position);
  return tensor_input(w, n->val, name, slot, flags, number);
}

// A tensor of the graph's own: a small one becomes part of it, another an
// input that the graph holds.
static int constant_tensor(walk *w, PyObject *tensor, const char *name,
                           int32_t number) {
  og_tensor view;
  og_device device;
  opgraft_value value;
  if (walk_device_read(w, tensor, &device) != 0) return -1;
  if (!tensor_read(tensor, guard_is_plain(tensor), &view)) {
    PyErr_Clear();
    return walk_refuse(w, "the graph's tensor %R has no plain memory", tensor);
  }
  if (device.type == OG_CPU &&
      og_numel(&view) * view.dtype.bits / 8 <= w->context->constant_bytes)
    return walk_engine(w, opgraft_graph_add_constant(w->out->graph, name, &view,
                                                     &value, &w->error)) != 0
               ? -1
               : stands_for(w, number, OPGRAFT_ARG_VALUE, value);
  const int32_t slot = -1 - (int32_t)PyList_Size(w->out->captured);
  if (PyList_Append(w->out->captured, tensor) != 0) return -1;
  PyObject *flags = PyDict_GetItemString(w->statics, name);
  return tensor_input(w, tensor, name, slot, flags != NULL ? flags : Py_False,
                      number);
}

// `target` names an attribute; Python gave it as the node's value.
static int attribute_add(walk *w, const fx_node *n, PyObject *attributes) {
  const int32_t number = walk_number_new(w, n->node);
  PyObject *object = PyDict_GetItem(attributes, n->target);
  const char *name = PyUnicode_AsUTF8AndSize(n->target, NULL);
  if (number < 0 || name == NULL) return -1;
  if (object == NULL)
    return walk_refuse(w, "the graph's attribute %S is not there", n->target);
  if (walk_is_tensor(w, object) == 1)
    return constant_tensor(w, object, name, number);
  return walk_constant_set(w, number, object);
}

static int output_add(walk *w, PyObject *object) {
  opgraft_graph *graph = w->out->graph;
  opgraft_size size;
  if (object == Py_None)
    return walk_engine(w, opgraft_graph_add_output(graph, -1, &w->error));
  if (PyLong_CheckExact(object))
    return walk_size_read(w, object, &size) != 0
               ? -1
               : walk_engine(
                     w, opgraft_graph_add_size_output(graph, size, &w->error));
  if ((PyObject *)Py_TYPE(object) != w->node_type)
    return walk_refuse(w, "an output is %R", object);
  const int32_t number = walk_number_find(w, object);
  return number < 0 ? -1
                    : walk_engine(w, opgraft_builder_add_output(
                                         w->builder, number, &w->error));
}

// What freeze.py has found out of the model's results, where it has.
static int outputs_name(walk *w, PyObject *meta, Py_ssize_t count) {
  PyObject *names = PyDict_GetItemString(meta, "opgraft_names");
  if (names == NULL) return 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *name = PySequence_GetItem(names, i);
    const char *text =
        name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const int status =
        text == NULL
            ? -1
            : walk_engine(w, opgraft_graph_name_output(
                                 w->out->graph, (int32_t)i, text, &w->error));
    Py_XDECREF(name);
    if (status != 0) return -1;
  }
  return 0;
}

static int outputs_add(walk *w, const fx_node *n) {
  PyObject *list = PyTuple_GetItem(n->args, 0);
  const bool is_tuple = PyTuple_Check(list);
  if (!is_tuple && !PyList_Check(list))
    return walk_refuse(w, "the graph gives %R, which is not a list", list);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(list) : PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (output_add(w, is_tuple ? PyTuple_GetItem(list, i)
                               : PyList_GetItem(list, i)) != 0)
      return -1;
  return outputs_name(w, n->meta, count);
}

static void fx_node_drop(fx_node *n) {
  Py_XDECREF(n->target);
  Py_XDECREF(n->args);
  Py_XDECREF(n->kwargs);
  Py_XDECREF(n->meta);
}

static int node_add(walk *w, PyObject *object, PyObject *attributes) {
  fx_node n = {.node = object};
  PyObject *op = PyObject_GetAttr(object, walk_names.op);
  n.target = PyObject_GetAttr(object, walk_names.target);
  n.args = PyObject_GetAttr(object, walk_names.args);
  n.kwargs = PyObject_GetAttr(object, walk_names.kwargs);
  n.meta = PyObject_GetAttr(object, walk_names.meta);
  int status = -1;
  if (op != NULL && n.target != NULL && n.args != NULL && n.kwargs != NULL &&
      n.meta != NULL) {
    n.val = PyDict_GetItem(n.meta, walk_names.val);
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
// attributes, modules, known, SymFloat, size_text, Passed)
static int walk_begin(walk *w, PyObject *name, PyObject *tools,
                      PyObject **out_attributes) {
  PyObject *modules;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  if (text == NULL || walk_names_make() != 0 ||
      !PyArg_ParseTuple(tools, "OOOOOOO!OO!O!OOO", &w->describe,
                        &w->functionalized, &w->node_type, &w->symint_type,
                        &w->device_type, &w->tensor_type, &PyDict_Type,
                        &w->statics, out_attributes, &PyTuple_Type, &modules,
                        &PyDict_Type, &w->known, &w->symfloat_type,
                        &w->size_text, &w->passed_type))
    return -1;
  if (walk_engine(w, opgraft_graph_create(text, &w->out->graph, &w->error)) !=
      0)
    return -1;
  for (Py_ssize_t m = 0; m < PyTuple_Size(modules); ++m) {
    opgraft_module *module = module_get(PyTuple_GetItem(modules, m));
    if (module == NULL ||
        walk_engine(
            w, opgraft_graph_add_module(w->out->graph, module, &w->error)) != 0)
      return -1;
  }
  w->numbers = PyDict_New();
  w->sizes = PyDict_New();
  w->out->captured = PyList_New(0);
  if (!w->numbers || !w->sizes || !w->out->captured) return -1;
  return walk_engine(
      w, opgraft_builder_create(w->out->graph, &w->builder, &w->error));
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
  for (Py_ssize_t i = 0; status == 0 && i < count; ++i)
    status = node_add(w, PyList_GetItem(nodes, i), attributes);
  opgraft_builder_destroy(w->builder);
  Py_XDECREF(w->numbers);
  Py_XDECREF(w->sizes);
  Py_XDECREF(w->ordered);
  pool_free(&w->memory);
  free(w);
  return status;
}
