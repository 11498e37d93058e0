// SPDX-License-Identifier: Apache-2.0
// The CUDA driver on the fake libcuda (tests/cuda), and an operator whose
// kernel launches one of its kernels.

#ifndef OG_TEST_DEVICE_CUDA_H
#define OG_TEST_DEVICE_CUDA_H

#include <dlfcn.h>
#include <opgraft/driver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_axpy.h"
#include "test.h"

enum { GPU_FLOATS = 64, GPU_BYTES = GPU_FLOATS * 4 };

// The fake's entries that a test calls by itself.
static struct {
  void *library;
  void (*fail)(const char *symbol, int nth, int result);
  const char *(*met)(void);
  int (*count)(const char *kind);
  int (*misuses)(void);
  void (*reset)(unsigned seed);
  int (*load)(void **, const void *, int *, void **, unsigned, int *, void **,
              unsigned);
  int (*find)(void **, void *, const char *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void *, void **, void **);
  int (*set)(uint64_t, unsigned char, size_t, void *);
  void *axpy, *scale;  // kernels
} fake;

static bool fake_open(void) {
  const struct {
    const char *symbol;
    void *place;
  } wanted[] = {
      {"opgraft_fake_fail", &fake.fail},
      {"opgraft_fake_met", &fake.met},
      {"opgraft_fake_count", &fake.count},
      {"opgraft_fake_misuses", &fake.misuses},
      {"opgraft_fake_reset", &fake.reset},
      {"cuLibraryLoadData", &fake.load},
      {"cuLibraryGetKernel", &fake.find},
      {"cuLaunchKernel", &fake.launch},
      {"cuMemsetD8Async", &fake.set},
  };
  if (fake.library != NULL) return true;
  setenv("OPGRAFT_FAKE_KERNELS", TEST_CUDA_DIR "/kernels.so", 1);
  // The driver opens libcuda.so.1, and gets the one that is loaded.
  fake.library = dlopen(TEST_CUDA_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; fake.library != NULL && i < sizeof wanted / sizeof *wanted;
       ++i)
    *(void **)wanted[i].place = dlsym(fake.library, wanted[i].symbol);
  return CHECK(fake.library != NULL && fake.set != NULL);
}

static bool fake_kernels(void) {
  void *code = NULL;
  if (fake.scale != NULL) return true;
  return CHECK_EQ(fake.load(&code, "code", NULL, NULL, 0, NULL, NULL, 0), 0) &&
         CHECK_EQ(fake.find(&fake.axpy, code, "axpy"), 0) &&
         CHECK_EQ(fake.find(&fake.scale, code, "scale"), 0);
}

typedef struct gpu {
  opgraft_driver *driver;
  opgraft_error error;
  void *stream[3];  // the first is the default one
  int reports;
  char report[1024];  // the last
} gpu;

static void gpu_report(void *user, og_status code, const char *text) {
  gpu *g = user;
  (void)code;
  ++g->reports;
  snprintf(g->report, sizeof g->report, "%s", text);
}

static bool gpu_ok(const gpu *g, og_status status, int line) {
  if (status != OG_OK && test_now.fault < 0)
    printf("line %d: %s\n", line, g->error.text);
  return CHECK_EQ(status, OG_OK);
}
#define GPU_OK(g, call) gpu_ok((g), (call), __LINE__)

// With a seed, work is done at calls that chance picks, else when it is waited
// for.
static bool gpu_open(gpu *g, unsigned seed) {
  *g = (gpu){0};
  if (!fake_open()) return false;
  fake.reset(seed);
  if (!GPU_OK(g, opgraft_driver_load(TEST_DEVICE_DIR "/cuda.so", NULL,
                                     &g->driver, &g->error)) ||
      !fake_kernels())
    return false;
  opgraft_driver_on_report(g->driver, gpu_report, g);
  g->stream[0] = opgraft_driver_default_stream(g->driver, 0);
  for (int i = 1; i < 3; ++i)
    if (!GPU_OK(g, opgraft_driver_stream_create(g->driver, 0, &g->stream[i],
                                                &g->error)))
      return false;
  return true;
}

// How much the fake holds of the driver's.
static int gpu_left(void) {
  static const char *const kinds[] = {"stream", "event", "graph",  "exec",
                                      "node",   "pool",  "memory", "context"};
  int left = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    left += fake.count(kinds[i]);
  return left;
}

static void gpu_close(gpu *g) {
  for (int i = 1; i < 3 && g->driver != NULL; ++i)
    if (g->stream[i] != NULL)
      GPU_OK(g,
             opgraft_driver_stream_destroy(g->driver, g->stream[i], &g->error));
  opgraft_driver_destroy(g->driver);
  if (fake.library == NULL) return;
  CHECK_EQ(gpu_left(), 0);
}

static inline void *gpu_floats(gpu *g, const char *label) {
  void *address = NULL;
  GPU_OK(g, opgraft_driver_allocate(g->driver, 0, GPU_BYTES, label, &address,
                                    &g->error));
  return address;
}

static inline void gpu_free(gpu *g, void *address) {
  GPU_OK(g, opgraft_driver_free(g->driver, 0, address, &g->error));
}

static inline og_status gpu_copy(gpu *g, void *stream, int32_t kind, void *to,
                                 const void *from) {
  return opgraft_driver_copy(g->driver, stream, kind, to, from, GPU_BYTES,
                             &g->error);
}

static inline og_status gpu_wait(gpu *g, void *stream) {
  return opgraft_driver_stream_synchronize(g->driver, stream, -1, &g->error);
}

// --- The operator ------------------------------------------------------------

// y = a * x + y, where a > 100 in two kernels, where it is 7 behind a set.
static og_status kernel_result(const og_call *call, int result) {
  char text[64];
  if (result == 0) return OG_OK;
  snprintf(text, sizeof text, "cuLaunchKernel gave %d", result);
  return og_fail(call, OG_KERNEL, text);
}

static og_status axpy_run(const og_call *call) {
  const float *x = og_data(call->in[0]);
  float *y = og_data(call->out[0]);
  float a = (float)call->attr[0].f;
  int32_t count = (int32_t)og_numel(call->out[0]);
  void *axpy[] = {&x, &y, &a, &count}, *scale[] = {&y, &a, &count};
  const unsigned grid = (unsigned)(count + 31) / 32;
  if (a == -1) return og_fail(call, OG_KERNEL, "a is -1");
  if (a == 7 && fake.set((uint64_t)(uintptr_t)y, 0, 4, call->stream) != 0)
    return og_fail(call, OG_KERNEL, "no set");
  const int result =
      fake.launch(fake.axpy, grid, 1, 1, 32, 1, 1, 0, call->stream, axpy, NULL);
  if (result != 0 || a <= 100) return kernel_result(call, result);
  a = 2;
  return kernel_result(call, fake.launch(fake.scale, grid, 1, 1, 32, 1, 1, 0,
                                         call->stream, scale, NULL));
}

static inline const og_launch *axpy_launch(axpy_call *c, void *x, void *y,
                                           double a) {
  return axpy_make(c, OG_CUDA, axpy_run, GPU_FLOATS, x, y, a);
}

static inline og_status axpy_give(gpu *g, void *stream, void *x, void *y,
                                  double a) {
  axpy_call c;
  return opgraft_driver_launch(g->driver, stream, axpy_launch(&c, x, y, a),
                               &g->error);
}

static inline bool gpu_all(const float *values, float wanted) {
  for (int i = 0; i < GPU_FLOATS; ++i)
    if (values[i] != wanted) return false;
  return true;
}

static inline void gpu_fill(float *values, float value) {
  for (int i = 0; i < GPU_FLOATS; ++i) values[i] = value;
}

#endif  // OG_TEST_DEVICE_CUDA_H
