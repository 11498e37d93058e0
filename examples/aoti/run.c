// SPDX-License-Identifier: Apache-2.0
// A model that AOTInductor compiled, with operators of a module, run from plain
// C: libtorch, the module's file, the model's code; no Python. It declares the
// functions that it calls, so it compiles without libtorch's headers.
//
//   cc -std=c11 run.c -o run -ldl
//   ./run libtorch.so scale.so model.wrapper.so [CALLS]
//
// The model has inputs x[n, 4] and weight[4] and one output like x, in f32.
// CALLS: prints the fastest of so many calls, in nanoseconds.

#define _POSIX_C_SOURCE 199309L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *tensor;

static int (*from_blob)(void *data, int64_t rank, const int64_t *sizes,
                        const int64_t *strides, int64_t offset, int32_t dtype,
                        int32_t device, int32_t device_index, tensor *out);
static int (*get_data)(tensor, void **out_data);
static int (*delete_tensor)(tensor);
static int32_t (*float32)(void);
static int32_t (*cpu)(void);
static int (*model_create)(void **out_model, size_t count, const char *device,
                           const char *constants);
static int (*model_run)(void *model, tensor *inputs, size_t input_count,
                        tensor *outputs, size_t output_count, void *stream,
                        void *proxy);
static int (*model_delete)(void *model);

static void *library_open(const char *path) {
  // The model's code finds the module's functions in the global scope.
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library != NULL) return library;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

static void find(void *library, const char *name, void *out_function) {
  void *address = dlsym(library, name);
  if (address == NULL) {
    fprintf(stderr, "%s is missing\n", name);
    exit(1);
  }
  memcpy(out_function, &address, sizeof address);
}

static void functions_find(void *libtorch, void *model) {
  find(libtorch, "aoti_torch_create_tensor_from_blob", &from_blob);
  find(libtorch, "aoti_torch_get_data_ptr", &get_data);
  find(libtorch, "aoti_torch_delete_tensor_object", &delete_tensor);
  find(libtorch, "aoti_torch_dtype_float32", &float32);
  find(libtorch, "aoti_torch_device_type_cpu", &cpu);
  find(model, "AOTInductorModelContainerCreateWithDevice", &model_create);
  find(model, "AOTInductorModelContainerRun", &model_run);
  find(model, "AOTInductorModelContainerDelete", &model_delete);
}

static tensor make(float *data, int64_t rank, const int64_t *sizes) {
  const int64_t strides[2] = {rank == 2 ? sizes[1] : 1, 1};
  tensor made = NULL;
  if (from_blob(data, rank, sizes, strides, 0, float32(), cpu(), 0, &made) != 0)
    exit(1);
  return made;
}

static double call(void *model, float *x, int64_t rows, float *weight,
                   int is_printed) {
  const int64_t sizes[2] = {rows, 4};
  // The model takes the inputs over.
  tensor inputs[2] = {make(x, 2, sizes), make(weight, 1, sizes + 1)};
  tensor output = NULL;
  struct timespec begin, end;
  float *y;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  const int status = model_run(model, inputs, 2, &output, 1, NULL, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (status != 0 || get_data(output, (void **)&y) != 0) exit(1);
  for (int64_t i = 0; is_printed && i < rows * 4; ++i)
    printf("%g%c", (double)y[i], i + 1 < rows * 4 ? ' ' : '\n');
  delete_tensor(output);
  return (double)(end.tv_sec - begin.tv_sec) * 1e9 +
         (double)(end.tv_nsec - begin.tv_nsec);
}

int main(int count, char **words) {
  if (count < 4) return 2;
  void *libtorch = library_open(words[1]), *model = NULL;
  library_open(words[2]);
  functions_find(libtorch, library_open(words[3]));
  if (model_create(&model, 1, "cpu", NULL) != 0) return 1;

  float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  float weight[4] = {1, 10, 100, 1000};
  double best = 1e18;
  const long calls = count > 4 ? strtol(words[4], NULL, 10) : 0;
  for (long i = 0; i < calls; ++i) {
    const double time = call(model, x, 3, weight, 0);
    if (time < best) best = time;
  }
  if (calls > 0)
    printf("%.0f\n", best);
  else
    for (int64_t rows = 1; rows <= 3; rows += 2)
      call(model, x, rows, weight, 1);
  model_delete(model);
  return 0;
}
