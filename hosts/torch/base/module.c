// SPDX-License-Identifier: Apache-2.0
// Modules as capsules, and errors of the library as exceptions.

#include "torch/base/module.h"

#include <stdlib.h>

PyObject *error_raise(const opgraft_error *error) {
  PyObject *kind = error->code == OG_MEMORY        ? PyExc_MemoryError
                   : error->code == OG_IO          ? PyExc_OSError
                   : error->code == OG_UNSUPPORTED ? PyExc_NotImplementedError
                                                   : PyExc_RuntimeError;
  PyErr_SetString(kind, error->text);
  return NULL;
}

static const char module_capsule[] = "opgraft.module";

static void module_end(PyObject *capsule) {
  opgraft_module *module = PyCapsule_GetPointer(capsule, module_capsule);
  if (module != NULL) opgraft_module_release(module);
}

opgraft_module *module_get(PyObject *capsule) {
  return PyCapsule_GetPointer(capsule, module_capsule);
}

PyObject *module_capsule_new(opgraft_module *module) {
  PyObject *capsule = PyCapsule_New(module, module_capsule, module_end);
  if (capsule == NULL) opgraft_module_release(module);
  return capsule;
}

PyObject *module_load(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *path;
  opgraft_module *module;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "O&", PyUnicode_FSConverter, &path))
    return NULL;
  const og_status status =
      opgraft_module_load(PyBytes_AsString(path), &module, &error);
  Py_DECREF(path);
  if (status != OG_OK) return error_raise(&error);
  return module_capsule_new(module);
}

// derive(handle, operator's name, OPGRAFT_GRADIENT or _TANGENT) -> handle
PyObject *module_derive(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  const char *name;
  int kind;
  opgraft_module *made;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "Osi", &capsule, &name, &kind)) return NULL;
  const opgraft_module *module = module_get(capsule);
  if (module == NULL) return NULL;
  const opgraft_op *op = opgraft_module_find_op(module, name);
  if (op == NULL)
    return PyErr_Format(PyExc_KeyError, "opgraft: no operator %s", name);
  if (opgraft_op_derive(op, kind, &made, &error) != OG_OK)
    return error_raise(&error);
  return module_capsule_new(made);
}

static PyObject *op_description(const opgraft_op *op) {
  char few[4096];
  const size_t length = opgraft_op_describe(op, few, sizeof few);
  if (length < sizeof few)
    return PyUnicode_FromStringAndSize(few, (Py_ssize_t)length);
  char *text = malloc(length + 1);
  if (text == NULL) return PyErr_NoMemory();
  opgraft_op_describe(op, text, length + 1);
  PyObject *description = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
  free(text);
  return description;
}

// module_info(handle) -> (name, hash, [description of each operator])
PyObject *module_info(PyObject *self, PyObject *capsule) {
  (void)self;
  const opgraft_module *module = module_get(capsule);
  if (module == NULL) return NULL;
  const int32_t count = opgraft_module_op_count(module);
  PyObject *list = PyList_New(count);
  for (int32_t i = 0; list != NULL && i < count; ++i) {
    PyObject *item = op_description(opgraft_module_op(module, i));
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, item);
  }
  return Py_BuildValue("(ssN)", opgraft_module_name(module),
                       opgraft_module_hash(module), list);
}

// module_unload(handle): gives the handle's reference back if it is the last.
// It waits for the module's kernels on devices without the interpreter lock.
PyObject *module_unload(PyObject *self, PyObject *capsule) {
  (void)self;
  opgraft_error error;
  opgraft_module *module = module_get(capsule);
  if (module == NULL) return NULL;
  // The destructor is disarmed first: the reference goes at most once.
  if (PyCapsule_SetDestructor(capsule, NULL) != 0) return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_module_unload(module, &error);
  PyEval_RestoreThread(thread);
  if (status == OG_OK) Py_RETURN_NONE;
  if (PyCapsule_SetDestructor(capsule, module_end) != 0) return NULL;
  return error_raise(&error);
}
