// SPDX-License-Identifier: Apache-2.0
// opgraft.freeze: a graph behind guards of its own, with no Dynamo on the way.
//
// Types, ranks, sizes, strides and devices are those that
// opgraft_executable_begin checks anyway; here stands what only the host can
// see: which objects are plain tensors, gradients, constants, and the sizes
// that the graph was made for. A guard that does not hold is an exception;
// nothing is recompiled.

#include "torch/graph/frozen.h"

#include <opgraft/graph_file.h>
#include <stdlib.h>
#include <string.h>

#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/tensor.h"
#include "torch/graph/compiled.h"
#include "torch/graph/constant.h"
#include "torch/graph/walk.h"

PyTypeObject *frozen_type;

// A size that varies, and between what.
typedef struct frozen_range {
  int32_t argument, dim;
  int64_t least, most;
} frozen_range;

typedef struct frozen {
  PyObject_HEAD          //
      PyObject *graph;   // CompiledGraph
  PyObject *names;       // tuple of str, by argument
  PyObject *constants;   // tuple: (value,) where the argument is one, True for
                         // an integer, None for a tensor
  PyObject *flatten;     // (args, kwargs) -> flat tuple, or raises
  PyObject *unflatten;   // (list) -> what the model gives; None: see is_single
  PyObject *misfit;      // the exception type
  PyObject *grad_is_on;  // () -> bool
  PyObject *explain;     // (flat tuple) -> what does not fit, or None
  PyObject *reduce;      // () -> what pickle and deepcopy make another from
  bool is_single;        // the model gives one tensor, else a tuple
  bool is_flat;          // arguments may come as they are
  frozen_range *ranges;
  int32_t range_count;
} frozen;

// --- Guards ------------------------------------------------------------------

static int misfit(const frozen *self, Py_ssize_t i, const char *format,
                  PyObject *found, PyObject *wanted) {
  PyObject *said = wanted != NULL ? PyUnicode_FromFormat(format, found, wanted)
                                  : PyUnicode_FromFormat(format, found);
  if (said == NULL) return -1;
  PyErr_Format(self->misfit, "argument %zd (%S) %U", i,
               PyTuple_GetItem(self->names, i), said);
  Py_DECREF(said);
  return -1;
}

static int constant_check(const frozen *self, Py_ssize_t i, PyObject *found,
                          PyObject *constant) {
  PyObject *wanted = PyTuple_GetItem(constant, 0);
  if (found == wanted) return 0;
  if (Py_TYPE(found) == Py_TYPE(wanted)) {
    const int same = PyObject_RichCompareBool(found, wanted, Py_EQ);
    if (same != 0) return same < 0 ? -1 : 0;
  }
  return misfit(self, i, "is %R, and the graph was frozen for %R", found,
                wanted);
}

static int grad_check(const frozen *self, Py_ssize_t i) {
  PyObject *on = PyObject_CallObject(self->grad_is_on, NULL);
  if (on == NULL) return -1;
  const int is_on = PyObject_IsTrue(on);
  Py_DECREF(on);
  if (is_on <= 0) return is_on;
  PyErr_Format(self->misfit,
               "argument %zd (%S) requires grad, and a frozen call gives no "
               "gradient; call it under torch.no_grad(), or use torch.compile",
               i, PyTuple_GetItem(self->names, i));
  return -1;
}

static int argument_check(const frozen *self, Py_ssize_t i, PyObject *found) {
  PyObject *constant = PyTuple_GetItem(self->constants, i);
  if (constant == Py_True)
    return PyLong_CheckExact(found) ? 0
                                    : misfit(self, i, "is %R, expected an int",
                                             (PyObject *)Py_TYPE(found), NULL);
  if (constant != Py_None) return constant_check(self, i, found, constant);
  if (UNLIKELY(!guard_is_plain(found)) && !guard_is_device_plain(found))
    return misfit(
        self, i,
        "is %R, expected a plain strided tensor on the CPU or a device",
        (PyObject *)Py_TYPE(found), NULL);
  if (UNLIKELY(guard_requires_grad(found))) return grad_check(self, i);
  return 0;
}

static int range_check(const frozen *self, const frozen_range *r,
                       PyObject *arguments) {
  og_tensor tensor;
  PyObject *object = PyTuple_GetItem(arguments, r->argument);
  if (!tensor_read(object, guard_is_plain(object), &tensor))
    return PyErr_Occurred() ? -1 : 0;
  if (tensor.ndim <= r->dim) return 0;  // the rank is found wrong later
  const int64_t size = tensor.shape[r->dim];
  if (size >= r->least && size <= r->most) return 0;
  PyErr_Format(self->misfit,
               "argument %d (%S): size %d is %lld, and the graph was frozen "
               "for %lld to %lld",
               (int)r->argument, PyTuple_GetItem(self->names, r->argument),
               (int)r->dim, (long long)size, (long long)r->least,
               (long long)r->most);
  return -1;
}

static int guards_check(const frozen *self, PyObject *arguments) {
  const Py_ssize_t count = PyTuple_Size(self->names);
  if (UNLIKELY(PyTuple_Size(arguments) != count)) {
    PyErr_Format(self->misfit, "got %zd arguments, expected %zd",
                 PyTuple_Size(arguments), count);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    if (argument_check(self, i, PyTuple_GetItem(arguments, i)) != 0) return -1;
  for (int32_t r = 0; r < self->range_count; ++r)
    if (range_check(self, &self->ranges[r], arguments) != 0) return -1;
  return 0;
}

// The graph knows its inputs by number; the caller, arguments by name.
static void misfit_explain(const frozen *self, PyObject *arguments) {
  PyObject *kind, *value, *trace;
  if (!PyErr_ExceptionMatches(self->misfit)) return;
  PyErr_Fetch(&kind, &value, &trace);
  PyObject *said =
      PyObject_CallFunctionObjArgs(self->explain, arguments, (PyObject *)NULL);
  if (said == Py_None) {
    PyErr_Restore(kind, value, trace);
  } else {
    if (said != NULL) PyErr_SetObject(self->misfit, said);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  Py_XDECREF(said);
}

// --- The call ----------------------------------------------------------------

static PyObject *results_give(const frozen *self, PyObject *results) {
  PyObject *given = NULL;
  if (results == NULL) return NULL;
  if (self->unflatten != Py_None) {
    given = PyObject_CallFunctionObjArgs(self->unflatten, results,
                                         (PyObject *)NULL);
  } else if (self->is_single) {
    given = PyList_GetItem(results, 0);
    Py_XINCREF(given);
  } else {
    given = PyList_AsTuple(results);
  }
  Py_DECREF(results);
  return given;
}

// Whether the collector took it apart; raises then.
static bool is_cleared(const frozen *self) {
  if (LIKELY(self->graph != NULL)) return false;
  PyErr_SetString(PyExc_RuntimeError,
                  "opgraft: a frozen graph is used while it is collected");
  return true;
}

static PyObject *frozen_call(PyObject *object, PyObject *arguments,
                             PyObject *keywords) {
  const frozen *self = (const frozen *)(const void *)object;
  if (UNLIKELY(is_cleared(self))) return NULL;
  const bool is_plain = self->is_flat &&
                        (keywords == NULL || PyDict_Size(keywords) == 0) &&
                        PyTuple_Size(arguments) == PyTuple_Size(self->names);
  PyObject *flat = NULL;
  if (!is_plain) {
    flat = PyObject_CallFunctionObjArgs(self->flatten, arguments,
                                        keywords ? keywords : Py_None,
                                        (PyObject *)NULL);
    if (flat == NULL) return NULL;
    arguments = flat;
  }
  Py_INCREF(object);
  const bool is_guarded = guards_check(self, arguments) == 0;
  PyObject *results = is_guarded ? compiled_run(self->graph, arguments) : NULL;
  if (UNLIKELY(is_guarded && results == NULL)) misfit_explain(self, arguments);
  PyObject *given = results_give(self, results);
  Py_DECREF(object);
  Py_XDECREF(flat);
  return given;
}

// --- Making ------------------------------------------------------------------

static int ranges_read(frozen *self, PyObject *list) {
  const Py_ssize_t count = PyList_Size(list);
  self->ranges = calloc((size_t)count + 1, sizeof *self->ranges);
  if (self->ranges == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    int argument, dim;
    long long least, most;
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iiLL", &argument, &dim,
                          &least, &most))
      return -1;
    self->ranges[self->range_count++] =
        (frozen_range){argument, dim, least, most};
  }
  return 0;
}

// frozen_new(graph, names, constants, ranges, flatten, unflatten, is_single,
// is_flat, misfit, grad_is_on, explain, reduce). ranges: [(argument, dim,
// least, most)].
PyObject *frozen_new(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *graph, *names, *fixed, *ranges, *flatten, *unflatten, *kind,
      *grad_is_on, *explain, *reduce;
  int is_single, is_flat;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!OOppOOOO", compiled_type, &graph,
                        &PyTuple_Type, &names, &PyTuple_Type, &fixed,
                        &PyList_Type, &ranges, &flatten, &unflatten, &is_single,
                        &is_flat, &kind, &grad_is_on, &explain, &reduce))
    return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(frozen_type, Py_tp_alloc);
  frozen *self = (frozen *)(void *)allocate(frozen_type, 0);
  if (self == NULL) return NULL;
  PyObject **const fields[] = {
      &self->graph,      &self->names,     &self->constants,
      &self->flatten,    &self->unflatten, &self->misfit,
      &self->grad_is_on, &self->explain,   &self->reduce};
  PyObject *const values[] = {graph, names,      fixed,   flatten, unflatten,
                              kind,  grad_is_on, explain, reduce};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i) {
    Py_INCREF(values[i]);
    *fields[i] = values[i];
  }
  self->is_single = is_single;
  self->is_flat = is_flat;
  compiled_set_error(graph, kind);
  if (ranges_read(self, ranges) != 0) Py_CLEAR(self);
  return (PyObject *)(void *)self;
}

// --- The object --------------------------------------------------------------

// What it holds of Python, each of which may lead back to it.
#define FROZEN_HOLDS(X) \
  X(graph)              \
  X(names)              \
  X(constants)          \
  X(flatten) X(unflatten) X(misfit) X(grad_is_on) X(explain) X(reduce)

static int frozen_traverse(PyObject *object, visitproc visit, void *arg) {
  const frozen *self = (const frozen *)(const void *)object;
  Py_VISIT(Py_TYPE(object));
#define X(field) Py_VISIT(self->field);
  FROZEN_HOLDS(X)
#undef X
  return 0;
}

static int frozen_clear(PyObject *object) {
  frozen *self = (frozen *)(void *)object;
#define X(field) Py_CLEAR(self->field);
  FROZEN_HOLDS(X)
#undef X
  return 0;
}

static void frozen_dealloc(PyObject *object) {
  frozen *self = (frozen *)(void *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  frozen_clear(object);
  free(self->ranges);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

static PyObject *frozen_graph(PyObject *object, void *none) {
  (void)none;
  const frozen *self = (const frozen *)(const void *)object;
  Py_XINCREF(self->graph);
  return is_cleared(self) ? NULL : self->graph;
}

static PyObject *frozen_reduce(PyObject *object, PyObject *none) {
  (void)none;
  const frozen *self = (const frozen *)(const void *)object;
  return is_cleared(self) ? NULL : PyObject_CallObject(self->reduce, NULL);
}

static PyObject *frozen_repr(PyObject *object) {
  const frozen *self = (const frozen *)(const void *)object;
  if (self->graph == NULL) return PyUnicode_FromString("<opgraft graph>");
  PyObject *comma = PyUnicode_FromString(", ");
  PyObject *names = comma ? PyUnicode_Join(comma, self->names) : NULL;
  PyObject *said =
      names ? PyUnicode_FromFormat("<opgraft graph of (%U)>", names) : NULL;
  Py_XDECREF(comma);
  Py_XDECREF(names);
  return said;
}

// Nothing of it changes, so that a shallow copy is itself.
static PyObject *frozen_copy(PyObject *object, PyObject *none) {
  (void)none;
  Py_INCREF(object);
  return object;
}

static PyMethodDef frozen_methods[] = {
    {"__reduce__", frozen_reduce, METH_NOARGS, NULL},
    {"__copy__", frozen_copy, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef frozen_getset[] = {
    {"graph", frozen_graph, NULL, "What runs: its stats(), its text().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot frozen_slots[] = {
    {Py_tp_dealloc, frozen_dealloc}, {Py_tp_traverse, frozen_traverse},
    {Py_tp_clear, frozen_clear},     {Py_tp_call, frozen_call},
    {Py_tp_repr, frozen_repr},       {Py_tp_getset, frozen_getset},
    {Py_tp_methods, frozen_methods}, {0, NULL},
};

static PyType_Spec frozen_spec = {
    .name = "opgraft._C.Frozen",
    .basicsize = sizeof(frozen),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = frozen_slots,
};

int frozen_setup(void) {
  frozen_type = (PyTypeObject *)(void *)PyType_FromSpec(&frozen_spec);
  return frozen_type != NULL ? 0 : -1;
}
