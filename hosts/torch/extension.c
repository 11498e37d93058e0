// SPDX-License-Identifier: Apache-2.0
// The extension module opgraft._C: modules and operators as Python objects.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "torch/adopt/adopt.h"
#include "torch/adopt/adopt_c.h"
#include "torch/adopt/adopt_python.h"
#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/params.h"
#include "torch/base/pool.h"
#include "torch/base/threads.h"
#include "torch/base/types.h"
#include "torch/call/fast.h"
#include "torch/device/device.h"
#include "torch/graph/captured.h"
#include "torch/graph/compiled.h"
#include "torch/graph/frozen.h"
#include "torch/graph/recipe.h"

// --- Operators ---------------------------------------------------------------

static PyTypeObject *op_type;

static void op_dealloc(PyObject *self) {
  host_op *op = (host_op *)(void *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (int32_t p = 0; p < op->param_count; ++p) {
    Py_XDECREF(op->params[p].name);
    Py_XDECREF(op->params[p].default_value);
  }
  Py_XDECREF(op->slow);
  Py_XDECREF(op->gradient);
  Py_XDECREF(op->reduce);
  Py_XDECREF(op->method);
  if (op->module != NULL) opgraft_module_release(op->module);
  free(op->doc);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static int op_traverse(PyObject *self, visitproc visit, void *arg) {
  const host_op *op = (const host_op *)(const void *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(op->slow);
  Py_VISIT(op->gradient);
  Py_VISIT(op->reduce);
  Py_VISIT(op->method);
  return 0;
}

static int op_clear(PyObject *self) {
  host_op *op = (host_op *)(void *)self;
  Py_CLEAR(op->slow);
  Py_CLEAR(op->gradient);
  Py_CLEAR(op->reduce);
  Py_CLEAR(op->method);
  return 0;
}

// op_new(module, operator name, results, parameter that takes result 0 or -1,
// whether outs follow the parameters, whether there is no guard, order of the
// parameters or None) -> operator
static PyObject *op_new(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *results, *order;
  const char *name;
  int inplace_param, has_out, is_raw;
  if (!PyArg_ParseTuple(arguments, "OsO!ippO", &capsule, &name, &PyTuple_Type,
                        &results, &inplace_param, &has_out, &is_raw, &order))
    return NULL;
  opgraft_module *module = module_get(capsule);
  if (module == NULL) return NULL;
  const opgraft_op *found = opgraft_module_find_op(module, name);
  if (found == NULL)
    return PyErr_Format(PyExc_KeyError, "opgraft: no operator %s", name);
  allocfunc allocate = (allocfunc)PyType_GetSlot(op_type, Py_tp_alloc);
  host_op *op = (host_op *)(void *)allocate(op_type, 0);
  if (op == NULL) return NULL;
  op->op = found;
  op->adopted = adopt_find(found);
  op->inplace_param = inplace_param;
  op->has_out_params = has_out != 0;
  op->is_raw = is_raw != 0;
  opgraft_module_retain(module);
  op->module = module;
  if (params_fill(op, order) == 0 && results_fill(op, results) == 0)
    return (PyObject *)(void *)op;
  Py_DECREF(op);
  return NULL;
}

static void swap_in(PyObject **slot, PyObject *object) {
  PyObject *old = *slot;
  *slot = object == Py_None ? NULL : object;
  Py_XINCREF(*slot);
  Py_XDECREF(old);
}

// op_bind(operator, name, doc, reduce) -> the builtin, made once
static PyObject *op_bind(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object, *reduce;
  const char *name, *doc;
  if (!PyArg_ParseTuple(arguments, "OssO", &object, &name, &doc, &reduce))
    return NULL;
  host_op *op = (host_op *)(void *)object;
  if (op->method != NULL)
    return PyErr_Format(PyExc_ValueError, "opgraft: %s is bound already",
                        op->doc);
  const size_t name_size = strlen(name) + 1, doc_size = strlen(doc) + 1;
  op->doc = malloc(name_size + doc_size);
  if (op->doc == NULL) return PyErr_NoMemory();
  memcpy(op->doc, name, name_size);
  memcpy(op->doc + name_size, doc, doc_size);
  op->definition = (PyMethodDef){
      .ml_name = op->doc,
      .ml_meth = (PyCFunction)(void (*)(void))fast_call,
      .ml_flags = METH_FASTCALL | METH_KEYWORDS,
      .ml_doc = op->doc + name_size,
  };
  swap_in(&op->reduce, reduce);
  op->method = PyCFunction_NewEx(&op->definition, object, NULL);
  Py_XINCREF(op->method);
  return op->method;
}

// op_roads(operator, slow, gradient): what takes a call that the guard refuses,
// and one that asks for a gradient.
static PyObject *op_roads(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object, *slow, *gradient;
  if (!PyArg_ParseTuple(arguments, "OOO", &object, &slow, &gradient))
    return NULL;
  host_op *op = (host_op *)(void *)object;
  swap_in(&op->slow, slow);
  swap_in(&op->gradient, gradient);
  Py_RETURN_NONE;
}

// A builtin pickles as an attribute of what it is bound to.
static PyObject *op_getattr(PyObject *self, PyObject *name) {
  host_op *op = (host_op *)(void *)self;
  if (op->method != NULL && PyUnicode_Check(name) &&
      PyUnicode_CompareWithASCIIString(name, op->definition.ml_name) == 0) {
    Py_INCREF(op->method);
    return op->method;
  }
  return PyObject_GenericGetAttr(self, name);
}

static PyObject *op_reduce(PyObject *self, PyObject *arguments) {
  const host_op *op = (const host_op *)(const void *)self;
  (void)arguments;
  if (op->reduce == NULL)
    return PyErr_Format(PyExc_TypeError, "opgraft: %s cannot be pickled",
                        opgraft_op_name(op->op));
  Py_INCREF(op->reduce);
  return op->reduce;
}

static PyMethodDef op_methods[] = {
    {"__reduce__", op_reduce, METH_NOARGS, "For pickle: loads the module."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot op_slots[] = {
    {Py_tp_dealloc, op_dealloc}, {Py_tp_traverse, op_traverse},
    {Py_tp_clear, op_clear},     {Py_tp_getattro, op_getattr},
    {Py_tp_methods, op_methods}, {0, NULL},
};

static PyType_Spec op_spec = {
    .name = "opgraft._C.Operator",
    .basicsize = sizeof(host_op),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = op_slots,
};

// --- The module --------------------------------------------------------------

// setup(torch, exchange capsule): once, when torch is imported.
static PyObject *setup(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *torch_module, *capsule;
  if (!PyArg_ParseTuple(arguments, "OO", &torch_module, &capsule)) return NULL;
  if (shim_open() != 0)
    return PyErr_Format(PyExc_ImportError,
                        "opgraft needs torch 2.13 or newer: this one lacks %s",
                        shim.missing);
  exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (exchange == NULL || types_setup(torch_module) != 0) return NULL;
  return Py_BuildValue("(II)", exchange->major, exchange->minor);
}

static PyObject *symbols(PyObject *self, PyObject *arguments) {
  (void)self;
  (void)arguments;
  PyObject *list = PyList_New(0);
  const char *name;
  bool is_found, is_published;
  for (int i = 0;
       list != NULL && shim_symbol(i, &name, &is_found, &is_published); ++i) {
    PyObject *row = Py_BuildValue("(sOO)", name, is_found ? Py_True : Py_False,
                                  is_published ? Py_True : Py_False);
    if (row == NULL || PyList_Append(list, row) != 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

// The names of the importer's rows.
static PyObject *graph_rows(PyObject *self, PyObject *none) {
  (void)self;
  (void)none;
  PyObject *list = PyList_New(0);
  const char *name;
  for (int32_t i = 0; list != NULL && (name = opgraft_graph_row(i)); ++i) {
    PyObject *text = PyUnicode_FromString(name);
    if (text == NULL || PyList_Append(list, text) != 0) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  return list;
}

static PyObject *settle(PyObject *self, PyObject *none) {
  (void)self;
  (void)none;
  memory_settle();
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, "Finds torch's C functions."},
    {"symbols", symbols, METH_NOARGS, "(name, found, published) of each."},
    {"op_new", op_new, METH_VARARGS, "An operator, for calls and kernels."},
    {"op_bind", op_bind, METH_VARARGS, "The builtin of an operator."},
    {"op_roads", op_roads, METH_VARARGS, "Where refused calls go."},
    {"memory_settle", settle, METH_NOARGS, "Free memory to the system."},
    {"graph_rows", graph_rows, METH_NOARGS, "What the importer knows."},
#define METHOD(name, flags, text) {#name, name, flags, text},
#include "torch/base/methods.def"
#undef METHOD
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "opgraft._C",
    .m_doc = "The PyTorch host of opgraft.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__C(void) {
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  op_type = (PyTypeObject *)(void *)PyType_FromSpec(&op_spec);
  if (op_type == NULL || compiled_setup() != 0 || frozen_setup() != 0 ||
      threads_setup() != 0 || adopt_c_setup(module) != 0 ||
      captured_setup(module) != 0 ||
      PyModule_AddObjectRef(module, "CompiledGraph",
                            (PyObject *)(void *)compiled_type) != 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
