// SPDX-License-Identifier: Apache-2.0
// TVM-FFI's C ABI, declared by hand. tests/conformance/abi_tvm_ffi.c compares
// each offset with the wheel's own header.
//
// Invariant: what is declared has kept its layout in every release of 0.1, and
// each function stands in each of them. Arrays and lists have not: their
// entries are read by the functions of TVM_GLOBAL_LIST.

#ifndef OG_HOSTS_TVM_FFI_ABI_H
#define OG_HOSTS_TVM_FFI_ABI_H

#include <opgraft/op.h>

enum { TVM_MAJOR = 0, TVM_MINOR = 1 };

typedef enum tvm_type {
  TVM_NONE = 0,
  TVM_INT = 1,
  TVM_BOOL = 2,
  TVM_FLOAT = 3,
  TVM_POINTER = 4,
  TVM_DTYPE = 5,
  TVM_DEVICE = 6,
  TVM_DL_TENSOR = 7,
  TVM_RAW_STR = 8,
  TVM_MOVED = 10,  // the address of an object's
  TVM_SMALL_STR = 11,
  TVM_OBJECTS = 64,  // what is counted starts here
  TVM_STR = 65,
  TVM_ERROR = 67,
  TVM_SHAPE = 69,
  TVM_TENSOR = 70,
  TVM_ARRAY = 71,
  TVM_LIST = 75,
} tvm_type;

typedef struct tvm_any {
  int32_t type;
  uint32_t small_length;  // of a short text, else 0
  union {
    int64_t i;
    double f;
    void *p;
    og_dtype dtype;
    og_device device;
    char text[8];
  };
} tvm_any;

// An object: this, then a text's tvm_bytes, a shape's tvm_sizes, a tensor's
// DLTensor.
typedef struct tvm_object {
  uint64_t counts;
  int32_t type;
  uint32_t padding;
  void *deleter;
} tvm_object;

typedef struct tvm_bytes {
  const char *data;
  size_t size;
} tvm_bytes;

typedef struct tvm_sizes {
  const int64_t *data;
  size_t size;
} tvm_sizes;

typedef struct tvm_version {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} tvm_version;

// DLPack's DLManagedTensorVersioned.
typedef struct tvm_managed {
  uint32_t major;
  uint32_t minor;
  void *context;
  void (*deleter)(void *self);
  uint64_t flags;
  og_tensor tensor;
} tvm_managed;

// X(field, symbol, result, parameters): functions of libtvm_ffi.
#define TVM_FUNCTION_LIST(X)                                             \
  X(raise, TVMFFIErrorSetRaisedFromCStr, void,                           \
    (const char *kind, const char *text))                                \
  X(get_version, TVMFFIGetVersion, void, (tvm_version * out_version))    \
  X(release, TVMFFIObjectDecRef, int, (void *object))                    \
  X(call, TVMFFIFunctionCall, int,                                       \
    (void *function, tvm_any *args, int32_t count, tvm_any *out_result)) \
  X(get_global, TVMFFIFunctionGetGlobal, int,                            \
    (const tvm_bytes *name, void **out_function))                        \
  X(make_text, TVMFFIStringFromByteArray, int,                           \
    (const tvm_bytes *bytes, tvm_any *out_text))                         \
  X(make_tensor, TVMFFITensorFromDLPackVersioned, int,                   \
    (tvm_managed * from, int32_t alignment, int32_t is_dense,            \
     void **out_tensor))

// X(field, name): its registered functions. Lists are younger than 0.1.0.
#define TVM_GLOBAL_LIST(X)         \
  X(array_make, "ffi.Array")       \
  X(array_size, "ffi.ArraySize")   \
  X(array_get, "ffi.ArrayGetItem") \
  X(list_size, "ffi.ListSize")     \
  X(list_get, "ffi.ListGetItem")

#endif  // OG_HOSTS_TVM_FFI_ABI_H
