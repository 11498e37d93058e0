// SPDX-License-Identifier: Apache-2.0
// torch's types and ours: dtype objects, the shim's numbers, DLPack's codes.

#ifndef OG_TORCH_TYPES_H
#define OG_TORCH_TYPES_H

#include "torch/base/host.h"

int types_setup(PyObject *torch_module);
// 0, or -1 where torch has no such type.
int dtype_to_shim(og_dtype dtype, int32_t *out);
enum { SHIM_DTYPES = 128 };
// Indexed by the type's number in torch's C shim; bits 0: no such type.
extern og_dtype dtype_by_code[SHIM_DTYPES];
static inline int dtype_from_shim(int32_t code, og_dtype *out) {
  if (UNLIKELY((uint32_t)code >= SHIM_DTYPES || dtype_by_code[code].bits == 0))
    return -1;
  *out = dtype_by_code[code];
  return 0;
}
int dtype_from_object(PyObject *object, og_dtype *out);
PyObject *dtype_to_object(og_dtype dtype);  // borrowed; NULL
// New; NULL with an exception set where torch has no such type or device.
PyObject *dtype_object(og_dtype dtype);
PyObject *device_object(og_device device);

static inline bool tensor_is_row_major(const og_tensor *tensor) {
  int64_t step = 1;
  for (int32_t i = tensor->ndim; i-- > 0; step *= tensor->shape[i])
    if (tensor->shape[i] != 1 && tensor->strides[i] != step) return false;
  return true;
}

#endif  // OG_TORCH_TYPES_H
