// SPDX-License-Identifier: Apache-2.0
// As much of libtvm_ffi.so as an adapter looks up, for a program in plain C:
// it counts what is alive, and has the version that VERSION gives. With LISTS
// it has the registered functions of arrays and lists.

#include <opgraft/op.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_tvm_ffi.h"

#ifndef VERSION
#define VERSION \
  { 0, 1, 0 }
#endif

typedef struct object {
  tvm_object head;
  union {
    og_tensor tensor;
    tvm_bytes bytes;
    tvm_sizes sizes;
  };
  tvm_managed *managed;
  void *memory;
  int32_t count;  // of the values in `memory`, where those are objects
} object;

OG_EXPORT int32_t stub_alive;
OG_EXPORT char stub_error[1024];

static object *object_make(int32_t type) {
  object *made = calloc(1, sizeof *made);
  if (made == NULL) abort();
  made->head.type = type;
  made->head.counts = 1;
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
  if (--dropped->head.counts > 0) return 0;
  const tvm_any *entries = dropped->memory;
  for (int32_t i = 0; i < dropped->count; ++i)
    if (entries[i].type >= TVM_OBJECTS) TVMFFIObjectDecRef(entries[i].p);
  if (dropped->managed != NULL) dropped->managed->deleter(dropped->managed);
  free(dropped->memory);
  free(dropped);
  --stub_alive;
  return 0;
}

// A copy that ends with a NUL.
static void *copied(const void *from, size_t size) {
  char *copy = malloc(size + 1);
  if (copy == NULL) abort();
  if (size > 0) memcpy(copy, from, size);
  copy[size] = '\0';
  return copy;
}

OG_EXPORT void *stub_text(int32_t type, const char *text, size_t length) {
  object *made = object_make(type);
  made->memory = copied(text, length);
  made->bytes = (tvm_bytes){made->memory, length};
  return made;
}

OG_EXPORT void *stub_shape(const int64_t *sizes, size_t count) {
  object *made = object_make(TVM_SHAPE);
  made->memory = copied(sizes, count * sizeof *sizes);
  made->sizes = (tvm_sizes){made->memory, count};
  return made;
}

OG_EXPORT void *stub_tensor(const og_tensor *tensor) {
  object *made = object_make(TVM_TENSOR);
  made->tensor = *tensor;
  return made;
}

OG_EXPORT void *stub_list(int32_t type, const tvm_any *entries, int32_t count) {
  object *made = object_make(type);
  made->memory = copied(entries, (size_t)count * sizeof *entries);
  made->count = count;
  for (int32_t i = 0; i < count; ++i)
    if (entries[i].type >= TVM_OBJECTS) ++((tvm_object *)entries[i].p)->counts;
  return made;
}

OG_EXPORT int TVMFFIStringFromByteArray(const tvm_bytes *bytes, tvm_any *out) {
  *out = (tvm_any){.type = TVM_STR,
                   .p = stub_text(TVM_STR, bytes->data, bytes->size)};
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

// --- Registered functions ----------------------------------------------------

#ifdef LISTS
static char make_function, size_function, get_function;
#endif

OG_EXPORT int TVMFFIFunctionGetGlobal(const tvm_bytes *name, void **out) {
  *out = NULL;
#ifdef LISTS
  const char last = name->size > 4 ? name->data[name->size - 3] : '\0';
  *out = last == 'i'   ? &size_function  // ffi.ArraySize, ffi.ListSize
         : last == 't' ? &get_function   // ffi.ArrayGetItem
                       : &make_function;
#else
  (void)name;
#endif
  return 0;
}

#ifdef LISTS
static int entry_get(const object *list, int64_t index, tvm_any *out) {
  if (index < 0 || index >= list->count) return -1;
  *out = ((const tvm_any *)list->memory)[index];
  if (out->type >= TVM_OBJECTS) ++((tvm_object *)out->p)->counts;
  return 0;
}

OG_EXPORT int TVMFFIFunctionCall(void *function, tvm_any *args, int32_t count,
                                 tvm_any *out) {
  if (function == &make_function) {
    *out = (tvm_any){.type = TVM_ARRAY, .p = stub_list(TVM_ARRAY, args, count)};
    return 0;
  }
  const object *list = args[0].p;
  if (function == &get_function) return entry_get(list, args[1].i, out);
  *out = (tvm_any){.type = TVM_INT, .i = list->count};
  return 0;
}
#else
OG_EXPORT int TVMFFIFunctionCall(void *function, tvm_any *args, int32_t count,
                                 tvm_any *out) {
  (void)function;
  (void)args;
  (void)count;
  (void)out;
  return -1;
}
#endif
