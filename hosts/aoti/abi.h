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

#endif  // OG_HOSTS_AOTI_ABI_H
