// SPDX-License-Identifier: Apache-2.0
// An expert layer as many packages ship theirs: a C function of a Python
// extension, which reads raw pointers and which no compiler can look into.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

static void *pointer(PyObject *tensor) {
  PyObject *number = PyObject_CallMethod(tensor, "data_ptr", NULL);
  void *p = number != NULL ? PyLong_AsVoidPtr(number) : NULL;
  Py_XDECREF(number);
  return p;
}

static Py_ssize_t size(PyObject *tensor, long dim) {
  PyObject *number = PyObject_CallMethod(tensor, "size", "l", dim);
  const Py_ssize_t n = number != NULL ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return n;
}

// experts(x[T, D], weight[E, D, D], choice[T]) -> [T, D]: each row by the
// expert that was chosen for it. All contiguous; float, float, int64.
static PyObject *experts(PyObject *self, PyObject *args) {
  PyObject *x, *weight, *choice;
  (void)self;
  if (!PyArg_ParseTuple(args, "OOO", &x, &weight, &choice)) return NULL;
  PyObject *out = PyObject_CallMethod(x, "clone", NULL);
  if (out == NULL) return NULL;
  const Py_ssize_t rows = size(x, 0), width = size(x, 1),
                   count = size(weight, 0);
  float *to = pointer(out);
  const float *from = pointer(x), *w = pointer(weight);
  const int64_t *at = pointer(choice);
  for (Py_ssize_t t = 0; !PyErr_Occurred() && t < rows; ++t) {
    if (at[t] < 0 || at[t] >= count) {
      PyErr_SetString(PyExc_IndexError, "experts: no such expert");
      break;
    }
    for (Py_ssize_t i = 0; i < width; ++i) {
      float sum = 0;
      for (Py_ssize_t j = 0; j < width; ++j)
        sum += w[(at[t] * width + i) * width + j] * from[t * width + j];
      to[t * width + i] = sum;
    }
  }
  if (!PyErr_Occurred()) return out;
  Py_DECREF(out);
  return NULL;
}

static PyMethodDef methods[] = {
    {"experts", experts, METH_VARARGS, "experts(x, weight, choice)"},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "moe_kernel",
                                    NULL,
                                    -1,
                                    methods,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC PyInit_moe_kernel(void) { return PyModule_Create(&module); }
