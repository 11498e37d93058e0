// SPDX-License-Identifier: Apache-2.0
// torch's types and ours: dtype objects, the shim's numbers, DLPack's codes.

#include "torch/base/types.h"

#include "torch/base/host.h"

#include <dlfcn.h>
#include <string.h>

typedef struct type_row {
  const char *name;
  og_dtype dtype;
  PyObject *object;  // torch.float32
  int32_t code;      // what aoti_torch_dtype_*() returns
  bool is_known;
} type_row;

static type_row rows[] = {
#define DTYPE_ROW(short_name, long_name, type, bits) \
  {.name = #long_name, .dtype = {type, bits, 1}},
    OG_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

og_dtype dtype_by_code[SHIM_DTYPES];

int types_setup(PyObject *torch_module) {
  void *library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  for (int i = 0; i < ROW_COUNT; ++i) {
    char symbol[64];
    int32_t (*number)(void);
    PyOS_snprintf(symbol, sizeof symbol, "aoti_torch_dtype_%s", rows[i].name);
    void *found = library != NULL ? dlsym(library, symbol) : NULL;
    if (found == NULL) continue;
    memcpy(&number, &found, sizeof number);
    PyObject *object = PyObject_GetAttrString(torch_module, rows[i].name);
    if (object == NULL) return -1;
    Py_XDECREF(rows[i].object);
    rows[i].object = object;
    rows[i].code = number();
    rows[i].is_known = true;
    if (rows[i].code >= 0 && rows[i].code < SHIM_DTYPES)
      dtype_by_code[rows[i].code] = rows[i].dtype;
  }
  return 0;
}

static const type_row *row_find(og_dtype dtype) {
  for (int i = 0; i < ROW_COUNT; ++i)
    if (rows[i].dtype.code == dtype.code && rows[i].dtype.bits == dtype.bits &&
        dtype.lanes == 1)
      return rows[i].is_known ? &rows[i] : NULL;
  return NULL;
}

int dtype_to_shim(og_dtype dtype, int32_t *out) {
  const type_row *row = row_find(dtype);
  if (row == NULL) return -1;
  *out = row->code;
  return 0;
}

int dtype_from_object(PyObject *object, og_dtype *out) {
  for (int i = 0; i < ROW_COUNT; ++i)
    if (rows[i].object == object) {
      *out = rows[i].dtype;
      return 0;
    }
  return -1;
}

PyObject *dtype_to_object(og_dtype dtype) {
  const type_row *row = row_find(dtype);
  return row != NULL ? row->object : NULL;
}

PyObject *dtype_object(og_dtype dtype) {
  PyObject *object = dtype_to_object(dtype);
  if (object == NULL)
    return PyErr_Format(PyExc_TypeError,
                        "torch has no type of code %d, %d bits", dtype.code,
                        dtype.bits);
  Py_INCREF(object);
  return object;
}

// Device 0 is the current one of its kind: the index is left out.
PyObject *device_object(og_device device) {
  const char *name = device.type == OG_CPU ? "cpu" : "cuda";
  if (device.type != OG_CPU && device.type != OG_CUDA)
    return PyErr_Format(PyExc_TypeError, "torch has no device of code %d",
                        (int)device.type);
  PyObject *torch_module = PyImport_ImportModule("torch");
  PyObject *object = NULL;
  if (torch_module != NULL && device.id != 0)
    object =
        PyObject_CallMethod(torch_module, "device", "si", name, (int)device.id);
  else if (torch_module != NULL)
    object = PyObject_CallMethod(torch_module, "device", "s", name);
  Py_XDECREF(torch_module);
  return object;
}
