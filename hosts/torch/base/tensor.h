// SPDX-License-Identifier: Apache-2.0
// Tensor objects: what lies in one, and new ones.

#ifndef OG_TORCH_TENSOR_H
#define OG_TORCH_TENSOR_H

#include "torch/base/guard.h"
#include "torch/base/host.h"
#include "torch/base/layout.h"
#include "torch/base/types.h"

// A new tensor object on the CPU or on CUDA, of this type, shape and strides,
// whose memory fresh->data then is; NULL with an exception set.
PyObject *fresh_make(og_tensor *fresh);
// A tensor object of what the handle holds, which it takes; NULL with an
// exception set. Only where guard_can_wrap.
static inline PyObject *handle_wrap(tensor_handle handle) {
  PyObject *object = shim.wrap_tensor(handle);
  shim.aoti_torch_delete_tensor_object(handle);
  return object;
}

// Where the sizes of a plain tensor lie is known; false where the shim must be
// asked. It is also who answers for memory: that may be copied on a write.
static inline bool sizes_read(PyObject *tensor, og_tensor *out) {
  char *impl = layout_impl(tensor);
  const uint64_t rank = layout_word(impl, torch_layout.rank);
  uint16_t dtype;
  if (UNLIKELY(rank > torch_layout.rank_most)) return false;
  memcpy(&dtype, impl + torch_layout.dtype, sizeof dtype);
  out->ndim = (int32_t)rank;
  out->shape = (int64_t *)(void *)(impl + torch_layout.sizes);
  out->strides = (int64_t *)(void *)(impl + torch_layout.strides);
  return dtype_from_shim(dtype, &out->dtype) == 0;
}

static inline bool handle_sizes_read(tensor_handle handle, og_tensor *out) {
  int64_t rank;
  int32_t type;
  if (shim.aoti_torch_get_dim(handle, &rank) != 0 ||
      shim.aoti_torch_get_sizes(handle, &out->shape) != 0 ||
      shim.aoti_torch_get_strides(handle, &out->strides) != 0 ||
      shim.aoti_torch_get_dtype(handle, &type) != 0 ||
      dtype_from_shim(type, &out->dtype) != 0)
    return false;
  out->ndim = (int32_t)rank;
  return true;
}

// The same as DLPack's exchange API gives, for a plain tensor, whose keys say
// that it is strided and on a CPU.
static inline bool plain_read(PyObject *tensor, tensor_handle handle,
                              og_tensor *out) {
  out->device = (og_device){OG_CPU, 0};
  out->byte_offset = 0;
  return (LIKELY(torch_layout.has_sizes && sizes_read(tensor, out)) ||
          handle_sizes_read(handle, out)) &&
         shim.aoti_torch_get_data_ptr(handle, &out->data) == 0;
}

// Zero tensors and functional wrappers have no data behind them, and are
// refused.
static inline bool data_check(const og_tensor *tensor) {
  if (LIKELY(tensor->data != NULL)) return true;
  for (int32_t i = 0; i < tensor->ndim; ++i)
    if (tensor->shape[i] == 0) return true;
  return false;
}

// Of a plain tensor of the loaded device, which the guard saw.
static inline bool device_plain_read(PyObject *tensor, og_tensor *out) {
  tensor_handle handle = guard_handle(tensor);
  out->device.type = OG_EXT_DEV;  // as torch tells DLPack
  out->byte_offset = 0;
  return ((torch_layout.has_sizes && sizes_read(tensor, out)) ||
          handle_sizes_read(handle, out)) &&
         shim.aoti_torch_get_device_index(handle, &out->device.id) == 0 &&
         shim.aoti_torch_get_data_ptr(handle, &out->data) == 0 &&
         data_check(out);
}

// Reads a tensor object; `is_plain`: the guard saw it. False refuses, an
// exception may be set.
static inline bool tensor_read(PyObject *value, bool is_plain, og_tensor *out) {
  tensor_handle handle = is_plain ? guard_handle(value) : NULL;
  if (LIKELY(handle != NULL)) {
    if (UNLIKELY(!plain_read(value, handle, out))) return false;
  } else if (UNLIKELY(exchange->tensor_from_object(value, out) != 0)) {
    return false;
  }
  return data_check(out);
}

#endif  // OG_TORCH_TENSOR_H
