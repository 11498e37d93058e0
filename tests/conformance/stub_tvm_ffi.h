// SPDX-License-Identifier: Apache-2.0
// What a program may ask of stub_tvm_ffi.c beside libtvm_ffi's functions: its
// objects, with one reference, which is the caller's.

#ifndef OG_CONFORMANCE_STUB_TVM_FFI_H
#define OG_CONFORMANCE_STUB_TVM_FFI_H

#include "tvm_ffi/abi.h"

extern int32_t stub_alive;     // objects
extern char stub_error[1024];  // the last error: its class, then its text

int TVMFFIObjectDecRef(void *address);
// A text, or an object of another type that has one's layout.
void *stub_text(int32_t type, const char *text, size_t length);
void *stub_shape(const int64_t *sizes, size_t count);
// Borrows what the tensor points to.
void *stub_tensor(const og_tensor *tensor);
// An array or list, which holds a reference to each object in `entries`.
void *stub_list(int32_t type, const tvm_any *entries, int32_t count);

#endif  // OG_CONFORMANCE_STUB_TVM_FFI_H
