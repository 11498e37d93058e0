// SPDX-License-Identifier: Apache-2.0
// An operator called through TVM-FFI from plain C: TVM-FFI's library, the
// module's file; no Python. It declares the few structs that it needs, so it
// compiles without TVM-FFI's headers.
//
//   cc -std=c11 run.c -o run -ldl
//   ./run libtvm_ffi.so scale.so

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tensor {  // DLPack's DLTensor
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tensor;

typedef struct any {
  int32_t type;  // 0: None, 7: a DLTensor, 70: a tensor object
  uint32_t zero;
  void *value;
} any;

typedef int (*operation)(void *self, const any *args, int32_t count,
                         any *result);

static int (*release)(void *object);
static void (*error_take)(void **out_error);

static void find(void *library, const char *name, void *out_function) {
  void *address = dlsym(library, name);
  if (address == NULL) {
    fprintf(stderr, "%s is missing\n", name);
    exit(1);
  }
  memcpy(out_function, &address, sizeof address);
}

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) return library;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

// An object begins with 24 bytes; a tensor's DLTensor follows them, and an
// error's class and message, each an address and a length.
enum { HEADER_BYTES = 24 };

static void error_print(void) {
  struct {
    const char *text;
    size_t length;
  } parts[2];
  char *error = NULL;
  error_take((void **)&error);
  if (error == NULL) return;
  memcpy(parts, error + HEADER_BYTES, sizeof parts);
  printf("%.*s: %.*s\n", (int)parts[0].length, parts[0].text,
         (int)parts[1].length, parts[1].text);
  release(error);
}

static tensor f32_tensor(float *data, int32_t rank, int64_t *shape) {
  return (tensor){.data = data,
                  .device_type = 1,
                  .rank = rank,
                  .code = 2,
                  .bits = 32,
                  .lanes = 1,
                  .shape = shape};
}

int main(int count, char **words) {
  if (count < 3) return 2;
  void *library = open_library(words[1]);
  find(library, "TVMFFIObjectDecRef", &release);
  find(library, "TVMFFIErrorMoveFromRaised", &error_take);
  operation scale;
  find(open_library(words[2]), "__tvm_ffi_scale", &scale);

  float x[4] = {1, 2, 3, 4}, weight[3] = {10, 100, 0};
  int64_t x_shape[2] = {2, 2}, weight_shape[1] = {2};
  tensor x_tensor = f32_tensor(x, 2, x_shape);
  tensor weight_tensor = f32_tensor(weight, 1, weight_shape);
  any args[2] = {{7, 0, &x_tensor}, {7, 0, &weight_tensor}}, result = {0};
  if (scale(NULL, args, 2, &result) != 0) {
    error_print();
    return 1;
  }
  tensor y;
  memcpy(&y, (char *)result.value + HEADER_BYTES, sizeof y);
  for (int i = 0; i < 4; ++i)
    printf("%g%c", ((float *)y.data)[i], i < 3 ? ' ' : '\n');
  release(result.value);

  weight_shape[0] = 3;
  if (scale(NULL, args, 2, &result) == 0) return 1;
  error_print();
  return 0;
}
