// SPDX-License-Identifier: Apache-2.0
// What code of AOTInductor passes, and libtorch's C shim, declared by hand.
//
// Source: torch/csrc/inductor/aoti_torch/c/shim.h, whose functions stay as they
// are for two years and more. The header is C++.

#ifndef OG_HOSTS_AOTI_ABI_H
#define OG_HOSTS_AOTI_ABI_H

#include <opgraft/op.h>
#include <stdbool.h>

typedef void *aoti_tensor;  // AtenTensorHandle

// An argument: one word, two for a list (its address, its length).
typedef union aoti_word {
  void *p;
  int64_t i;
  double f;
} aoti_word;

// X(name, result, parameters): each is aoti_torch_NAME of libtorch_cpu.
#define AOTI_FUNCTION_LIST(X)                                              \
  X(get_data_ptr, int32_t, (aoti_tensor, void **))                         \
  X(get_dim, int32_t, (aoti_tensor, int64_t *))                            \
  X(get_sizes, int32_t, (aoti_tensor, int64_t **))                         \
  X(get_strides, int32_t, (aoti_tensor, int64_t **))                       \
  X(get_dtype, int32_t, (aoti_tensor, int32_t *))                          \
  X(get_device_type, int32_t, (aoti_tensor, int32_t *))                    \
  X(empty_strided, int32_t,                                                \
    (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, \
     aoti_tensor *))                                                       \
  X(delete_tensor_object, int32_t, (aoti_tensor))                          \
  X(device_type_cpu, int32_t, (void))                                      \
  X(check, void, (bool, const char *, const char *, uint32_t, const char *))

// X(name, code, bits): aoti_torch_dtype_NAME gives libtorch's number.
#define AOTI_DTYPE_LIST(X)          \
  X(float32, OG_CODE_FLOAT, 32)     \
  X(float64, OG_CODE_FLOAT, 64)     \
  X(float16, OG_CODE_FLOAT, 16)     \
  X(bfloat16, OG_CODE_BFLOAT, 16)   \
  X(int8, OG_CODE_INT, 8)           \
  X(int16, OG_CODE_INT, 16)         \
  X(int32, OG_CODE_INT, 32)         \
  X(int64, OG_CODE_INT, 64)         \
  X(uint8, OG_CODE_UINT, 8)         \
  X(uint16, OG_CODE_UINT, 16)       \
  X(uint32, OG_CODE_UINT, 32)       \
  X(uint64, OG_CODE_UINT, 64)       \
  X(bool, OG_CODE_BOOL, 8)          \
  X(complex64, OG_CODE_COMPLEX, 64) \
  X(complex128, OG_CODE_COMPLEX, 128)

#endif  // OG_HOSTS_AOTI_ABI_H
