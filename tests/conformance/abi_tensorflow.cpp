// SPDX-License-Identifier: Apache-2.0
// Our declaration of TensorFlow's functions beside the wheel's own headers. It
// compiles, or a parameter or a number has moved.

#include <opgraft/op.h>

#include <type_traits>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#define _Bool bool
#include "tensorflow/abi.h"

// Passed alike: pointers, or values of one size and class.
template <typename A, typename B>
constexpr bool is_alike() {
  if (std::is_pointer<A>::value || std::is_pointer<B>::value)
    return std::is_pointer<A>::value && std::is_pointer<B>::value;
  if constexpr (std::is_void<A>::value || std::is_void<B>::value)
    return std::is_void<A>::value && std::is_void<B>::value;
  else
    return sizeof(A) == sizeof(B) &&
           std::is_floating_point<A>::value == std::is_floating_point<B>::value;
}

template <typename A, typename B>
struct same : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct same<R(A...), S(B...)> {
  static constexpr bool all() {
    if constexpr (sizeof...(A) == sizeof...(B))
      return is_alike<R, S>() && (is_alike<A, B>() && ...);
    else
      return false;
  }
  static constexpr bool value = all();
};

#define CHECK(name, result, parameters)                              \
  static_assert(same<result parameters, decltype(TF_##name)>::value, \
                "TF_" #name);
TF_FUNCTION_LIST(CHECK)

#define NUMBER(number, theirs) static_assert(number == theirs, #theirs)
NUMBER(TF_CODE_OK, TF_OK);
NUMBER(TF_CODE_INVALID_ARGUMENT, TF_INVALID_ARGUMENT);
NUMBER(TF_CODE_EXHAUSTED, TF_RESOURCE_EXHAUSTED);
NUMBER(TF_CODE_INTERNAL, TF_INTERNAL);
NUMBER(1, TF_FLOAT);
NUMBER(2, TF_DOUBLE);
NUMBER(3, TF_INT32);
NUMBER(4, TF_UINT8);
NUMBER(5, TF_INT16);
NUMBER(6, TF_INT8);
NUMBER(8, TF_COMPLEX64);
NUMBER(9, TF_INT64);
NUMBER(10, TF_BOOL);
NUMBER(14, TF_BFLOAT16);
NUMBER(17, TF_UINT16);
NUMBER(18, TF_COMPLEX128);
NUMBER(19, TF_HALF);
NUMBER(22, TF_UINT32);
NUMBER(23, TF_UINT64);
