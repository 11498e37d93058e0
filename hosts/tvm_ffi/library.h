// SPDX-License-Identifier: Apache-2.0
// TVM-FFI's library in the process.

#ifndef OG_HOSTS_TVM_FFI_LIBRARY_H
#define OG_HOSTS_TVM_FFI_LIBRARY_H

#include "tvm_ffi/abi.h"

typedef struct og_tvm_library {
#define FIELD(field, symbol, result, parameters) result(*field) parameters;
  TVM_FUNCTION_LIST(FIELD)
#undef FIELD
#define FIELD(field, name) void *field;
  TVM_GLOBAL_LIST(FIELD)  // NULL where the release lacks it
#undef FIELD
} og_tvm_library;

// NULL where the process has no libtvm_ffi, or one with another ABI; an error
// is raised if the library can hold one.
const og_tvm_library *og_tvm_library_get(void);

#endif  // OG_HOSTS_TVM_FFI_LIBRARY_H
