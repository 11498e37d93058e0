// SPDX-License-Identifier: Apache-2.0
// As much of libtvm_ffi.so as an adapter looks up, for a program in plain C:
// it counts what is alive, and has the version that VERSION gives.

#include <opgraft/op.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_ffi/abi.h"

#ifndef VERSION
#define VERSION \
  { 0, 1, 0 }
#endif

typedef struct object {
  tvm_object head;
  union {
    og_tensor tensor;
    tvm_bytes bytes;
  };
  tvm_managed *managed;
  char *text;
} object;

OG_EXPORT int32_t stub_alive;
OG_EXPORT char stub_error[1024];

static object *object_make(int32_t type) {
  object *made = calloc(1, sizeof *made);
  if (made == NULL) abort();
  made->head.type = type;
  ++stub_alive;
  return made;
}

OG_EXPORT void TVMFFIErrorSetRaisedFromCStr(const char *kind,
                                            const char *text) {
  snprintf(stub_error, sizeof stub_error, "%s: %s", kind, text);
}

OG_EXPORT void TVMFFIGetVersion(tvm_version *out_version) {
  *out_version = (tvm_version)VERSION;
}

OG_EXPORT int TVMFFIObjectDecRef(void *address) {
  object *dropped = address;
  if (dropped->managed != NULL) dropped->managed->deleter(dropped->managed);
  free(dropped->text);
  free(dropped);
  --stub_alive;
  return 0;
}

OG_EXPORT int TVMFFIStringFromByteArray(const tvm_bytes *bytes, tvm_any *out) {
  object *made = object_make(TVM_STR);
  made->text = malloc(bytes->size + 1);
  if (made->text == NULL) abort();
  memcpy(made->text, bytes->data, bytes->size);
  made->text[bytes->size] = '\0';
  made->bytes = (tvm_bytes){made->text, bytes->size};
  *out = (tvm_any){.type = TVM_STR, .p = made};
  return 0;
}

OG_EXPORT int TVMFFITensorFromDLPackVersioned(tvm_managed *from,
                                              int32_t alignment,
                                              int32_t is_dense,
                                              void **out_tensor) {
  object *made = object_make(TVM_TENSOR);
  (void)alignment;
  (void)is_dense;
  made->tensor = from->tensor;
  made->managed = from;
  *out_tensor = made;
  return 0;
}

// It has no registered functions.
OG_EXPORT int TVMFFIFunctionGetGlobal(const tvm_bytes *name, void **out) {
  (void)name;
  *out = NULL;
  return 0;
}

OG_EXPORT int TVMFFIFunctionCall(void *function, tvm_any *args, int32_t count,
                                 tvm_any *out_result) {
  (void)function;
  (void)args;
  (void)count;
  (void)out_result;
  return -1;
}
