// SPDX-License-Identifier: Apache-2.0
// Shared libraries whose functions are adopted, as capsules.

#include "torch/base/host.h"

#include <dlfcn.h>

static const char library_capsule[] = "opgraft.library";

static void library_end(PyObject *capsule) {
  const uint64_t env = opgraft_float_env_get();
  dlclose(PyCapsule_GetPointer(capsule, library_capsule));
  opgraft_float_env_set(env);
}

// library_open(path) -> a capsule that keeps it mapped
PyObject *library_open(PyObject *self, PyObject *argument) {
  (void)self;
  PyObject *path;
  if (!PyUnicode_FSConverter(argument, &path)) return NULL;
  const uint64_t env = opgraft_float_env_get();
  void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
  opgraft_float_env_set(env);
  Py_DECREF(path);
  if (library == NULL) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  return PyCapsule_New(library, library_capsule, library_end);
}

// library_find(capsule, name) -> its address, or None
PyObject *library_find(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "Os", &capsule, &name)) return NULL;
  void *library = PyCapsule_GetPointer(capsule, library_capsule);
  if (library == NULL) return NULL;
  void *found = dlsym(library, name);
  if (found == NULL) Py_RETURN_NONE;
  return PyLong_FromVoidPtr(found);
}
