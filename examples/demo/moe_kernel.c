// SPDX-License-Identifier: Apache-2.0
// A mixture-of-experts kernel as its owner ships it: a C extension that takes
// tensors as Python objects, reads their memory, and tells PyTorch nothing. The
// function is bound to a PyCapsule, as pybind11 binds its functions.
//
//     expert_ffn(out, x, ids, weights, w1, w2)
//
// out[t] = sum over k of weights[t, k] * silu(x[t] @ w1[e].T) @ w2[e].T with
// e = ids[t, k]; w1 [E, I, H], w2 [E, H, I], all f32, ids i64.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct tensor {
  void *data;
  long sizes[3];
} tensor;

static int read_tensor(PyObject *object, int rank, tensor *out) {
  PyObject *pointer = PyObject_CallMethod(object, "data_ptr", NULL);
  if (pointer == NULL) return -1;
  out->data = PyLong_AsVoidPtr(pointer);
  Py_DECREF(pointer);
  for (int d = 0; d < rank; ++d) {
    PyObject *size = PyObject_CallMethod(object, "size", "i", d);
    if (size == NULL) return -1;
    out->sizes[d] = PyLong_AsLong(size);
    Py_DECREF(size);
  }
  return PyErr_Occurred() != NULL ? -1 : 0;
}

static void token(float *out, const float *x, const float *w1, const float *w2,
                  float weight, long hidden, long inner, float *between) {
  for (long i = 0; i < inner; ++i) {
    float sum = 0;
    for (long h = 0; h < hidden; ++h) sum += x[h] * w1[i * hidden + h];
    between[i] = sum / (1 + expf(-sum));
  }
  for (long h = 0; h < hidden; ++h) {
    float sum = 0;
    for (long i = 0; i < inner; ++i) sum += between[i] * w2[h * inner + i];
    out[h] += weight * sum;
  }
}

static PyObject *expert_ffn(PyObject *self, PyObject *const *args,
                            Py_ssize_t count) {
  static const int ranks[] = {2, 2, 2, 2, 3, 3};
  tensor t[6];
  (void)self;
  if (count != 6) {
    PyErr_SetString(PyExc_TypeError,
                    "expert_ffn(out, x, ids, weights, w1, w2)");
    return NULL;
  }
  for (int i = 0; i < 6; ++i)
    if (read_tensor(args[i], ranks[i], &t[i]) != 0) return NULL;
  const long tokens = t[1].sizes[0], hidden = t[1].sizes[1];
  const long chosen = t[2].sizes[1], inner = t[4].sizes[1];
  float *between = malloc((size_t)(inner > 0 ? inner : 1) * sizeof *between);
  if (between == NULL) return PyErr_NoMemory();
  memset(t[0].data, 0, (size_t)(tokens * hidden) * sizeof(float));
  for (long i = 0; i < tokens; ++i)
    for (long k = 0; k < chosen; ++k) {
      const int64_t e = ((const int64_t *)t[2].data)[i * chosen + k];
      const size_t at = (size_t)(e * inner * hidden);
      if (e < 0 || e >= t[4].sizes[0]) {
        free(between);
        PyErr_SetString(PyExc_IndexError, "expert_ffn: no such expert");
        return NULL;
      }
      token((float *)t[0].data + i * hidden,
            (const float *)t[1].data + i * hidden,
            (const float *)t[4].data + at, (const float *)t[5].data + at,
            ((const float *)t[3].data)[i * chosen + k], hidden, inner, between);
    }
  free(between);
  Py_RETURN_NONE;
}

static PyMethodDef method = {
    "expert_ffn", (PyCFunction)(void (*)(void))expert_ffn, METH_FASTCALL,
    "expert_ffn(out, x, ids, weights, w1, w2)"};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "moe_kernel",
    .m_size = 0,
};

PyMODINIT_FUNC PyInit_moe_kernel(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *record = PyCapsule_New(&method, NULL, NULL);
  PyObject *name = PyUnicode_FromString(definition.m_name);
  PyObject *function = NULL;
  if (module != NULL && record != NULL && name != NULL)
    function = PyCFunction_NewEx(&method, record, name);
  Py_XDECREF(record);
  Py_XDECREF(name);
  if (function == NULL ||
      PyModule_AddObjectRef(module, method.ml_name, function) < 0)
    Py_CLEAR(module);
  Py_XDECREF(function);
  return module;
}
