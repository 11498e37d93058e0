// SPDX-License-Identifier: Apache-2.0
// Adopted operators: a module made of what Python says.
//
// Invariant: an adoption owns the record, the strings' objects and the
// callables, and lives until the module's last reference is gone; so a graph
// that can still call an operator keeps its function and library.

#include "torch/adopt/adopt.h"
#include "torch/base/module.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct adoption {
  PyObject *operators;  // the list that Python gave: holds every string
  og_op *ops;
  og_kernel *kernels;
  const void **derived;
  const opgraft_prepared **prepared;
  int32_t count;
  char name[64];
  og_module record;
} adoption;

static const adopt_kind *const kinds[] = {&adopt_python, &adopt_c, &adopt_tvm};

// --- Declarations ------------------------------------------------------------

typedef struct text_field {
  const char *name;
  size_t offset;
} text_field;

static const text_field text_fields[] = {
    {"schema", offsetof(og_op, schema)},
    {"shape", offsetof(og_op, shape)},
    {"where", offsetof(og_op, where)},
    {"dtype", offsetof(og_op, dtype)},
    {"backward", offsetof(og_op, backward)},
    {"strides", offsetof(og_op, strides)},
    {"row", offsetof(og_op, row)},
    {"inplace", offsetof(og_op, inplace)},
    {"doc", offsetof(og_op, doc)},
    {"expect", offsetof(og_op, expect)},
};

// An operator is a dict of its texts, `flags` and `dtypes` (of its kernel).
static int declaration_read(PyObject *fields, og_op *out) {
  for (size_t f = 0; f < sizeof text_fields / sizeof *text_fields; ++f) {
    PyObject *value = PyDict_GetItemString(fields, text_fields[f].name);
    if (value == NULL || value == Py_None) continue;
    const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
    if (text == NULL) return -1;
    memcpy((char *)out + text_fields[f].offset, &text, sizeof text);
  }
  PyObject *flags = PyDict_GetItemString(fields, "flags");
  if (flags != NULL) out->flags = (uint32_t)PyLong_AsUnsignedLong(flags);
  return PyErr_Occurred() != NULL ? -1 : 0;
}

static void adoption_free(adoption *a) {
  for (int32_t i = 0; i < a->count; ++i) {
    adopted *self = (adopted *)(uintptr_t)a->derived[i];
    if (self != NULL && self->kind != NULL) self->kind->reset(self);
    free(self);
  }
  Py_XDECREF(a->operators);
  free(a->ops);
  free(a->kernels);
  free(a->derived);
  free(a->prepared);
  free(a);
}

// The last reference may go on any thread, also while the interpreter ends;
// then what it owns goes with the process.
static void adoption_release(void *owner) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  adoption_free(owner);
  PyGILState_Release(state);
}

static adoption *adoption_new(const char *name, PyObject *operators) {
  const Py_ssize_t count = PyList_Size(operators);
  adoption *a = calloc(1, sizeof *a);
  if (a != NULL && count > 0) {
    a->ops = calloc((size_t)count, sizeof *a->ops);
    a->kernels = calloc((size_t)count, sizeof *a->kernels);
    a->derived = calloc((size_t)count, sizeof *a->derived);
    a->prepared = calloc((size_t)count, sizeof *a->prepared);
  }
  if (a == NULL || a->ops == NULL || a->kernels == NULL || a->derived == NULL ||
      a->prepared == NULL) {
    if (a != NULL) adoption_free(a);
    PyErr_NoMemory();
    return NULL;
  }
  Py_INCREF(operators);
  a->operators = operators;
  a->count = (int32_t)count;
  PyOS_snprintf(a->name, sizeof a->name, "%s", name);
  a->record = (og_module){
      .struct_size = sizeof a->record,
      .abi_version = OG_ABI_VERSION,
      .name = a->name,
      .ops = a->ops,
      .op_count = (uint32_t)count,
      .op_size = sizeof(og_op),
  };
  return a;
}

static const adopt_kind *kind_find(const char *name) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
    if (strcmp(kinds[k]->name, name) == 0) return kinds[k];
  PyErr_Format(PyExc_ValueError, "opgraft: no kind of callable is named %s",
               name);
  return NULL;
}

static og_status not_bound(const og_call *call) {
  return og_fail(call, OG_INTERNAL, "is declared, and calls nothing");
}

// `item` is (declaration, kind, payload), or (declaration,) where a formula is
// its kernel or it is only to be described.
static int operator_read(adoption *a, int32_t i, PyObject *item) {
  PyObject *fields, *payload = NULL;
  const char *kind_name = NULL;
  if (!PyArg_ParseTuple(item, "O!|sO", &PyDict_Type, &fields, &kind_name,
                        &payload) ||
      declaration_read(fields, &a->ops[i]) != 0)
    return -1;
  if (a->ops[i].row != NULL) return 0;
  a->kernels[i] = (og_kernel){.device = OG_CPU, .run = not_bound};
  a->ops[i].kernels = &a->kernels[i];
  a->ops[i].kernel_count = 1;
  a->ops[i].kernel_size = sizeof(og_kernel);
  if (kind_name == NULL) return 0;
  const adopt_kind *kind = kind_find(kind_name);
  if (kind == NULL) return -1;
  adopted *self = calloc(1, kind->size_bytes);
  if (self == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  a->derived[i] = self;
  self->kind = kind;
  const char *schema = a->ops[i].schema;
  PyOS_snprintf(self->name, sizeof self->name, "%.*s",
                schema != NULL ? (int)strcspn(schema, "( ") : 0, schema);
  a->kernels[i].run = kind->run;
  if (kind->read(self, payload) != 0) return -1;
  if (self->prepared.run != NULL) a->prepared[i] = &self->prepared;
  return 0;
}

static int operators_bind(const adoption *a, const opgraft_module *module) {
  for (int32_t i = 0; i < a->count; ++i) {
    adopted *self = (adopted *)(uintptr_t)a->derived[i];
    if (self == NULL || self->kind->bind == NULL) continue;
    if (self->kind->bind(self, opgraft_module_op(module, i)) != 0) return -1;
  }
  return 0;
}

// adopt(module name, key, [(declaration, kind, payload)]) -> module handle
PyObject *adopt_make(PyObject *self, PyObject *arguments) {
  (void)self;
  const char *name, *key;
  PyObject *operators;
  opgraft_module *module;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "ssO!", &name, &key, &PyList_Type,
                        &operators))
    return NULL;
  adoption *a = adoption_new(name, operators);
  if (a == NULL) return NULL;
  for (int32_t i = 0; i < a->count; ++i)
    if (operator_read(a, i, PyList_GetItem(operators, i)) != 0) {
      adoption_free(a);
      return NULL;
    }
  const opgraft_made made = {
      .struct_size = sizeof made,
      .record = &a->record,
      .derived = a->derived,
      .prepared = a->prepared,
      .key = key,
      .release = adoption_release,
      .owner = a,
  };
  if (opgraft_module_make(&made, &module, &error) != OG_OK) {
    adoption_free(a);
    return error_raise(&error);
  }
  if (operators_bind(a, module) != 0) {
    opgraft_module_release(module);
    return NULL;
  }
  return module_capsule_new(module);
}

const adopted *adopt_find(const opgraft_op *op) {
  const og_op *record = opgraft_op_record(op);
  opgraft_frame frame;
  if (record->kernel_count != 1 || record->kernels[0].run != adopt_python.run)
    return NULL;
  opgraft_frame_init(&frame, op);
  return frame.call.derived;
}
