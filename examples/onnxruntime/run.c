// SPDX-License-Identifier: Apache-2.0
// A model with operators of a module, run from plain C: ONNX Runtime's library,
// the module's file, a model; no Python. It calls the runtime by the slots of
// its function table, so it compiles without the runtime's headers; a program
// that has them writes api->CreateSession(...).
//
//   cc -std=c11 run.c -o run -ldl
//   ./run libonnxruntime.so scale.so model.onnx
//
// The model has inputs x[2, 2] and weight[2] and the output y[2, 2], in f32.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);
typedef struct api_base {
  const function *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} api_base;

static const function *api;
#define CALL(slot, ...) ((void *(*)(__VA_ARGS__))api[slot])

static void check(void *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", ((const char *(*)(const void *))api[2])(status));
  exit(1);
}

static const api_base *runtime_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  void *symbol = dlsym(library, "OrtGetApiBase");
  const api_base *(*get_base)(void) = NULL;
  memcpy(&get_base, &symbol, sizeof get_base);
  return get_base != NULL ? get_base() : NULL;
}

static void *session_open(const char *module, const char *model) {
  void *env = NULL, *options = NULL, *library = NULL, *session = NULL;
  check(CALL(3, int, const char *, void **)(3, "example", &env));
  check(CALL(10, void **)(&options));  // CreateSessionOptions
  // RegisterCustomOpsLibrary: the operators' file.
  check(CALL(29, void *, const char *, void **)(options, module, &library));
  check(CALL(7, void *, const char *, void *, void **)(env, model, options,
                                                       &session));
  return session;
}

static void *tensor(float *data, size_t count, const int64_t *dims,
                    size_t rank) {
  void *memory = NULL, *value = NULL;
  check(CALL(69, int, int, void **)(0, 0, &memory));  // CreateCpuMemoryInfo
  check(CALL(49, void *, void *, size_t, const int64_t *, size_t, int, void **)(
      memory, data, count * sizeof *data, dims, rank, 1, &value));
  return value;
}

int main(int argc, char **argv) {
  static const char *const inputs[] = {"x", "weight"}, *outputs[] = {"y"};
  const int64_t dims[] = {2, 2};
  float x[] = {1, 2, 3, 4}, weight[] = {10, 100}, *y = NULL;
  if (argc != 4) {
    fprintf(stderr, "usage: run LIBONNXRUNTIME MODULE MODEL\n");
    return 2;
  }
  const api_base *base = runtime_open(argv[1]);
  api = base != NULL ? base->get_api(16) : NULL;
  if (api == NULL) {
    fprintf(stderr, "%s: ONNX Runtime 1.16 or newer is needed\n", argv[1]);
    return 1;
  }
  void *session = session_open(argv[2], argv[3]);
  const void *values[] = {tensor(x, 4, dims, 2), tensor(weight, 2, dims, 1)};
  void *result = NULL;
  check(CALL(9, void *, const void *, const char *const *, const void *const *,
             size_t, const char *const *, size_t,
             void **)(session, NULL, inputs, values, 2, outputs, 1, &result));
  check(CALL(51, void *, float **)(result, &y));  // GetTensorMutableData
  printf("%g %g %g %g\n", (double)y[0], (double)y[1], (double)y[2],
         (double)y[3]);
  return 0;
}
