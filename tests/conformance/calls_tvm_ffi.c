// SPDX-License-Identifier: Apache-2.0
// Calls of kinds.so through stub_tvm_ffi.c, right and wrong ones, from plain C.
// Prints how many objects of the library are alive at the end.
//
//   calls_tvm_ffi libtvm_ffi.so kinds.so

#include <dlfcn.h>
#include <opgraft/op.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_ffi/abi.h"

typedef int (*operation)(void *self, const tvm_any *args, int32_t count,
                         tvm_any *result);

static int (*release)(void *object);
static char *error_text;
static void *module;

static void find(void *library, const char *name, void *out_function) {
  void *address = library != NULL ? dlsym(library, name) : NULL;
  if (address == NULL) {
    fprintf(stderr, "%s: %s\n", name, dlerror());
    exit(1);
  }
  memcpy(out_function, &address, sizeof address);
}

static tvm_any number(double value) {
  return (tvm_any){.type = TVM_FLOAT, .f = value};
}
static tvm_any whole(int64_t value) {
  return (tvm_any){.type = TVM_INT, .i = value};
}
static tvm_any given(og_tensor *tensor) {
  return (tvm_any){.type = TVM_DL_TENSOR, .p = tensor};
}

static og_tensor floats(float *data, int32_t rank, int64_t *sizes,
                        int64_t *strides) {
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = rank,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = sizes,
                     .strides = strides};
}

static void result_print(const tvm_any *result) {
  if (result->type == TVM_NONE) puts("None");
  if (result->type == TVM_STR) {
    tvm_bytes text;
    memcpy(&text, (const tvm_object *)result->p + 1, sizeof text);
    printf("a text of %s\n", text.size > 100 ? "metadata" : "docs");
  }
  if (result->type == TVM_TENSOR) {
    og_tensor tensor;
    memcpy(&tensor, (const tvm_object *)result->p + 1, sizeof tensor);
    for (int64_t i = 0; i < og_numel(&tensor); ++i)
      printf("%g ", (double)og_f32(&tensor)[i]);
    printf("of rank %d\n", (int)tensor.ndim);
  }
  if (result->type >= TVM_OBJECTS) release(result->p);
}

static void call(const char *name, const tvm_any *args, int32_t count) {
  operation run;
  find(module, name, &run);
  tvm_any result = {.type = TVM_NONE};
  error_text[0] = '\0';
  printf("%s: ", name + strlen("__tvm_ffi_"));
  if (run(NULL, args, count, &result) == 0)
    result_print(&result);
  else
    puts(error_text);
}

// A result whose object the caller gives away, which stays the caller's.
static void moved_print(og_tensor *x, const og_tensor *to) {
  struct {
    tvm_object head;
    og_tensor tensor;
  } object = {.head = {.type = TVM_TENSOR}, .tensor = *to};
  void *address = &object;
  const tvm_any args[] = {
      given(x), number(0), number(1), {.type = TVM_MOVED, .p = &address}};
  call("__tvm_ffi_tilt", args, 4);
  for (int i = 0; i < 4; ++i) printf("%g ", (double)((float *)to->data)[i]);
  puts(address == &object ? "and still the caller's" : "and gone");
}

int main(int count, char **words) {
  if (count < 3) return 2;
  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  find(library, "TVMFFIObjectDecRef", &release);
  find(library, "stub_error", &error_text);
  module = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  int32_t *alive;
  find(library, "stub_alive", &alive);

  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[4] = {0};
  int64_t sizes[2] = {2, 2}, across[2] = {1, 2}, three[1] = {3}, none[1] = {0};
  og_tensor x = floats(data, 2, sizes, NULL),
            y = floats(data, 2, sizes, across);
  og_tensor z = floats(data, 1, three, NULL),
            empty = floats(NULL, 1, none, NULL);
  og_tensor to = floats(out, 2, sizes, across), far = x;
  x.byte_offset = 4 * sizeof(float);
  far.device.type = OG_CUDA;
  const tvm_any args[] = {given(&x), given(&y), number(10), given(&to),
                          number(0)};
  call("__tvm_ffi_affine", args, 3);
  call("__tvm_ffi_affine", args, 2);
  call("__tvm_ffi_affine", args, 4);
  printf("%g %g %g %g\n", (double)out[0], (double)out[1], (double)out[2],
         (double)out[3]);
  call("__tvm_ffi_affine", args, 1);
  call("__tvm_ffi_affine", args, 5);
  call("__tvm_ffi_affine", args + 2, 3);
  const tvm_any apart[] = {given(&x), given(&z)};
  call("__tvm_ffi_affine", apart, 2);
  const tvm_any nothing[] = {given(&empty), given(&empty)};
  call("__tvm_ffi_affine", nothing, 2);
  const tvm_any gpu[] = {given(&far), given(&y)};
  call("__tvm_ffi_affine", gpu, 2);
  const tvm_any to_gpu[] = {given(&x), given(&y), number(10), given(&far)};
  call("__tvm_ffi_affine", to_gpu, 4);
  moved_print(&x, &to);
  const tvm_any level[] = {given(&z), whole(4)};
  call("__tvm_ffi_refuse", level, 2);
  const tvm_any holes[] = {given(&x), {.type = TVM_NONE}, {.type = TVM_NONE}};
  call("__tvm_ffi_maybe", holes, 3);
  call("__tvm_ffi_maybe", holes, 1);
  const tvm_any two[] = {given(&x)};
  call("__tvm_ffi_spread", two, 1);
  call("__tvm_ffi_total", two, 1);
  // The second is like the first but for its strides, which it lacks.
  og_tensor rows = floats(data, 2, sizes, NULL);
  const tvm_any columns_twice[] = {given(&y), given(&y)};
  const tvm_any rows_twice[] = {given(&rows), given(&rows)};
  call("__tvm_ffi_affine", columns_twice, 2);
  call("__tvm_ffi_affine", rows_twice, 2);
  call("__tvm_ffi__metadata_affine", NULL, 0);
  printf("alive: %d\n", (int)*alive);
  return 0;
}
