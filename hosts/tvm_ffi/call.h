// SPDX-License-Identifier: Apache-2.0
// What the functions call that the file exports for each operator; names.c
// writes their source.

#ifndef OG_HOSTS_TVM_FFI_CALL_H
#define OG_HOSTS_TVM_FFI_CALL_H

#include "tvm_ffi/abi.h"

// As TVMFFISafeCallType returns: 0, or -1 and an error that is raised.
int32_t opgraft_tvm_ffi_call(int32_t op, const void *args, int32_t count,
                             void *result);
// The operator's metadata as a text: JSON with the types of its arguments, and
// under "opgraft" its declaration, as opgraft_op_describe has it.
int32_t opgraft_tvm_ffi_metadata(int32_t op, void *result);
// Its doc string.
int32_t opgraft_tvm_ffi_doc(int32_t op, void *result);

#endif  // OG_HOSTS_TVM_FFI_CALL_H
