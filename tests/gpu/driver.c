// SPDX-License-Identifier: Apache-2.0
// devices/cuda on a real GPU: results, then times.
//
// Build and run where the GPU is, from the root of the repository:
//   cc -O2 -std=c11 -Iinclude -I. -o /tmp/gpu_driver tests/gpu/driver.c
//     devices/cuda/api.c -ldl -lpthread
//   /tmp/gpu_driver build/devices/cuda.so
// CMake makes build/tests/gpu/driver of it. Ends with `N passed, N failed`.

#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <opgraft/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cuda/api.h"
#include "tests/unit/device_axpy.h"

enum { COUNT = 1 << 20, BYTES = COUNT * 4, NODES = 10, BLOCKS = 7 };

// y = a * x + y
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry axpy(.param .u64 px, .param .u64 py, .param .f32 pa,\n"
    "                     .param .u32 pn) {\n"
    "  .reg .pred %p<2>;\n  .reg .f32 %f<5>;\n  .reg .b32 %r<6>;\n"
    "  .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [px];\n  ld.param.u64 %rd2, [py];\n"
    "  ld.param.f32 %f1, [pa];\n  ld.param.u32 %r1, [pn];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n"
    "  mov.u32 %r4, %tid.x;\n  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p1, %r5, %r1;\n  @%p1 bra L_done;\n"
    "  cvta.to.global.u64 %rd3, %rd1;\n  cvta.to.global.u64 %rd4, %rd2;\n"
    "  mul.wide.u32 %rd5, %r5, 4;\n  add.s64 %rd6, %rd3, %rd5;\n"
    "  add.s64 %rd7, %rd4, %rd5;\n  ld.global.f32 %f2, [%rd6];\n"
    "  ld.global.f32 %f3, [%rd7];\n  fma.rn.f32 %f4, %f1, %f2, %f3;\n"
    "  st.global.f32 [%rd7], %f4;\nL_done:\n  ret;\n}\n";

static const og_cuda_api *api;
static const og_device_driver *driver;
static void *state, *kernel;
static og_device_error error;
static int passed, failed;

static void check(int holds, int line, const char *text) {
  if (holds) {
    ++passed;
    return;
  }
  ++failed;
  printf("line %d: not so: %s\n", line, text);
}
#define CHECK(condition) check((condition) != 0, __LINE__, #condition)

static int went_well(og_status status, int line, const char *text) {
  if (status == OG_OK) {
    ++passed;
    return 1;
  }
  ++failed;
  printf("line %d: %s: status %d: %s\n", line, text, (int)status, error.text);
  return 0;
}
#define OK(call) went_well((call), __LINE__, #call)

static void cuda_ok(int result, const char *symbol) {
  char text[256];
  if (result == 0) {
    ++passed;
    return;
  }
  ++failed;
  og_cuda_api_explain(api, symbol, result, text, sizeof text);
  printf("%s\n", text);
}

static void report(void *user, og_status code, const char *text) {
  (void)user;
  printf("report: status %d: %s\n", (int)code, text);
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// --- An operator's launch ----------------------------------------------------

static int axpy_put(void *x, void *y, float a, uint32_t count, void *stream) {
  void *parameters[] = {&x, &y, &a, &count};
  return api->launch(kernel, (count + 255) / 256, 1, 1, 256, 1, 1, 0, stream,
                     parameters, NULL);
}

static og_status axpy_run(const og_call *call) {
  char text[256];
  const int result = axpy_put(og_data(call->in[0]), og_data(call->out[0]),
                              (float)call->attr[0].f,
                              (uint32_t)og_numel(call->out[0]), call->stream);
  if (result == 0) return OG_OK;
  og_cuda_api_explain(api, "cuLaunchKernel", result, text, sizeof text);
  return og_fail(call, OG_KERNEL, text);
}

static const og_launch *axpy_launch(axpy_call *c, void *x, void *y,
                                    int64_t count, double a) {
  return axpy_make(c, OG_CUDA, axpy_run, count, x, y, a);
}

static og_status axpy_give(void *stream, void *x, void *y, int64_t count,
                           double a) {
  axpy_call c;
  return driver->launch(state, stream, axpy_launch(&c, x, y, count, a), &error);
}

// --- Results -----------------------------------------------------------------

typedef struct memory {
  void *x, *y, *z;
  float *host, *back;  // what is copied there, and what is read
  void *streams[3];    // two of the driver's, and the legacy default one
} memory;

static void *device_floats(void) {
  void *address = NULL;
  OK(driver->memory_allocate(state, 0, BYTES, &address, &error));
  CHECK((uintptr_t)address % 256 == 0);
  return address;
}

static int memory_make(memory *m) {
  *m = (memory){.x = device_floats(),
                .y = device_floats(),
                .z = device_floats(),
                .host = malloc(BYTES),
                .back = malloc(BYTES)};
  for (int i = 0; i < 2; ++i)
    OK(driver->stream_create(state, 0, &m->streams[i], &error));
  for (int i = 0; i < COUNT && m->host != NULL; ++i)
    m->host[i] = (float)(i % 7);
  return m->host != NULL && m->back != NULL && failed == 0;
}

// Every element of `from` is `factor` times i % 7.
static void expect(memory *m, void *stream, const void *from, double factor) {
  int wrong = 0;
  memset(m->back, 0xFF, BYTES);
  OK(driver->copy_to_host(state, stream, m->back, from, BYTES, &error));
  OK(driver->stream_synchronize(state, stream, -1, &error));
  for (int i = 0; i < COUNT; ++i)
    wrong += m->back[i] != (float)(factor * (i % 7));
  if (wrong > 0)
    printf("%d of %d are wrong: [1] is %g, expected %g; [6] is %g\n", wrong,
           COUNT, (double)m->back[1], factor, (double)m->back[6]);
  CHECK(wrong == 0);
}

static void clear(void *stream, void *y) {
  OK(driver->memory_set(state, stream, y, 0, BYTES, &error));
}

static void work_check(memory *m) {
  for (int i = 0; i < 3; ++i) {
    void *s = m->streams[i];
    OK(driver->copy_to_device(state, s, m->x, m->host, BYTES, &error));
    clear(s, m->y);
    OK(axpy_give(s, m->x, m->y, COUNT, 3));
    OK(driver->copy_on_device(state, s, m->z, m->y, BYTES, &error));
    expect(m, s, m->z, 3);
  }
}

static void host_set(void *user) { *(volatile int *)user = 1; }

static void events_check(memory *m) {
  void *event[2] = {NULL, NULL};
  volatile int flag = 0;
  int64_t ns = -1;
  for (int i = 0; i < 2; ++i)
    OK(driver->event_create(state, 0, &event[i], &error));
  OK(driver->event_record(state, event[0], m->streams[0], &error));
  clear(m->streams[0], m->y);
  for (int i = 0; i < 50; ++i)
    OK(axpy_give(m->streams[0], m->x, m->y, COUNT, 1));
  OK(driver->event_record(state, event[1], m->streams[0], &error));
  OK(driver->event_wait(state, event[1], m->streams[1], &error));
  OK(axpy_give(m->streams[1], m->x, m->y, COUNT, 1));
  OK(driver->host_function(state, m->streams[1], host_set, (void *)&flag,
                           &error));
  const og_status early =
      driver->stream_synchronize(state, m->streams[1], 0, &error);
  CHECK(early == OG_OK || early == OG_BUSY);
  OK(driver->event_synchronize(state, event[1], 5000000000, &error));
  OK(driver->stream_synchronize(state, m->streams[1], -1, &error));
  CHECK(flag == 1);
  OK(driver->event_elapsed(state, event[0], event[1], &ns, &error));
  printf("events: 50 axpy of %d floats took %.1f us on the GPU\n", COUNT,
         (double)ns / 1e3);
  CHECK(ns > 0);
  expect(m, m->streams[1], m->y, 51);
  for (int i = 0; i < 2; ++i)
    OK(driver->event_destroy(state, event[i], &error));
}

// --- Captures ----------------------------------------------------------------

static void *capture(void *stream, void *x, void *y, int64_t count) {
  void *graph = NULL, *exec = NULL;
  if (!OK(driver->capture_begin(state, stream, &error))) return NULL;
  for (int n = 0; n < NODES; ++n) OK(axpy_give(stream, x, y, count, 1));
  if (!OK(driver->capture_end(state, stream, &graph, &error))) return NULL;
  OK(driver->graph_instantiate(state, graph, &exec, &error));
  OK(driver->graph_destroy(state, graph, &error));
  return exec;
}

static void update(void *exec, int32_t index, void *x, void *y, int64_t count,
                   double a) {
  axpy_call c;
  OK(driver->exec_update(state, exec, index, axpy_launch(&c, x, y, count, a),
                         &error));
}

static void capture_check(memory *m, void *stream) {
  clear(stream, m->y);
  clear(stream, m->z);
  void *exec = capture(stream, m->x, m->y, COUNT);
  if (exec == NULL) return;
  expect(m, stream, m->y, 0);  // captured, not done
  OK(driver->exec_launch(state, exec, stream, &error));
  expect(m, stream, m->y, NODES);
  // Two of the ten write z from now on; the launch before keeps its addresses.
  OK(driver->exec_launch(state, exec, stream, &error));
  update(exec, 2, m->x, m->z, COUNT, 5);
  update(exec, 9, m->x, m->z, COUNT, 7);
  OK(driver->exec_launch(state, exec, stream, &error));
  expect(m, stream, m->y, 2 * NODES + NODES - 2);
  expect(m, stream, m->z, 12);
  for (int i = 0; i < 300; ++i) {
    update(exec, 2, m->x, i % 2 ? m->y : m->z, COUNT, 1);
    update(exec, 9, m->x, i % 2 ? m->y : m->z, COUNT, 1);
    OK(driver->exec_launch(state, exec, stream, &error));
  }
  expect(m, stream, m->z, 12 + 300);
  expect(m, stream, m->y, 3 * NODES - 2 + 300 * (NODES - 2) + 300);
  OK(driver->exec_destroy(state, exec, &error));
}

static void wrong_check(memory *m) {
  axpy_call c;
  void *graph = NULL, *s = m->streams[0];
  OK(driver->capture_begin(state, s, &error));
  CHECK(driver->stream_synchronize(state, s, -1, &error) == OG_INVALID);
  printf("message: %s\n", error.text);
  OK(driver->capture_end(state, s, &graph, &error));
  OK(driver->graph_destroy(state, graph, &error));
  CHECK(driver->memory_free(state, 0, (void *)256, &error) != OG_OK);
  printf("message: %s\n", error.text);
  void *exec = capture(s, m->x, m->y, COUNT);
  CHECK(driver->exec_update(state, exec, NODES,
                            axpy_launch(&c, m->x, m->y, COUNT, 1),
                            &error) == OG_INVALID);
  printf("message: %s\n", error.text);
  OK(driver->exec_destroy(state, exec, &error));
}

// --- Times: of the host, per call --------------------------------------------

typedef struct timing {
  void *stream, *x, *y, *z;
  void *exec;      // of the driver
  void *raw_exec;  // of CUDA
} timing;

static void raw_make(timing *t) {
  void *graph = NULL;
  cuda_ok(api->capture_begin(t->stream, OG_CUDA_CAPTURE_RELAXED),
          "cuStreamBeginCapture");
  for (int n = 0; n < NODES; ++n)
    cuda_ok(axpy_put(t->x, t->y, 1, 256, t->stream), "cuLaunchKernel");
  cuda_ok(api->capture_end(t->stream, &graph), "cuStreamEndCapture");
  cuda_ok(api->graph_instantiate(&t->raw_exec, graph, 0), "cuGraphInstantiate");
  cuda_ok(api->graph_destroy(graph), "cuGraphDestroy");
}

static void raw_launch(timing *t, int i) {
  (void)i;
  api->launch(kernel, 1, 1, 1, 256, 1, 1, 0, t->stream,
              (void *[]){&t->x, &t->y, &(float){1}, &(uint32_t){256}}, NULL);
}
static void driver_launch(timing *t, int i) {
  (void)i;
  axpy_give(t->stream, t->x, t->y, 256, 1);
}
static void raw_graph(timing *t, int i) {
  (void)i;
  api->exec_launch(t->raw_exec, t->stream);
}
static void driver_graph(timing *t, int i) {
  (void)i;
  driver->exec_launch(state, t->exec, t->stream, &error);
}
static void driver_update(timing *t, int i) {
  axpy_call c;
  void *to = i % 2 ? t->y : t->z;
  driver->exec_update(state, t->exec, 3, axpy_launch(&c, t->x, to, 256, 1),
                      &error);
}
static void driver_moved(timing *t, int i) {
  axpy_call c;
  driver_update(t, i);
  driver->exec_update(state, t->exec, 7, axpy_launch(&c, t->x, t->y, 256, 1),
                      &error);
  driver_graph(t, i);
}

// Rounds of 200 calls, each waited for outside of the time; the least of the
// blocks, which are interleaved.
static void times_print(timing *t) {
  static const struct {
    const char *name;
    void (*call)(timing *t, int i);
  } rows[] = {{"cuLaunchKernel", raw_launch},
              {"driver launch", driver_launch},
              {"cuGraphLaunch, 10 nodes", raw_graph},
              {"driver exec_launch, 10 nodes", driver_graph},
              {"driver exec_update, 1 node", driver_update},
              {"driver replay, 2 of 10 nodes moved", driver_moved}};
  enum { ROWS = sizeof rows / sizeof *rows, CALLS = 200 };
  double least[ROWS];
  for (int r = 0; r < ROWS; ++r) least[r] = 1e30;
  for (int b = 0; b < BLOCKS * ROWS; ++b) {
    const int r = b % ROWS;
    const double begin = now_us();
    for (int i = 0; i < CALLS; ++i) rows[r].call(t, i);
    const double us = (now_us() - begin) / CALLS;
    OK(driver->stream_synchronize(state, t->stream, -1, &error));
    if (us < least[r]) least[r] = us;
  }
  for (int r = 0; r < ROWS; ++r)
    printf("time: %-36s %8.2f us\n", rows[r].name, least[r]);
  printf("ratio: driver exec_launch / cuGraphLaunch %.2f\n",
         least[3] / least[2]);
  printf("ratio: driver replay with 2 moved / cuGraphLaunch %.2f\n",
         least[5] / least[2]);
}

static void times_take(memory *m) {
  timing t = {.stream = m->streams[0], .x = m->x, .y = m->y, .z = m->z};
  t.exec = capture(t.stream, t.x, t.y, 256);
  raw_make(&t);
  if (t.exec != NULL && t.raw_exec != NULL) times_print(&t);
  if (t.raw_exec != NULL)
    cuda_ok(api->exec_destroy(t.raw_exec), "cuGraphExecDestroy");
  if (t.exec != NULL) OK(driver->exec_destroy(state, t.exec, &error));
  const double begin = now_us();
  for (int i = 0; i < 100; ++i) {
    void *address = NULL;
    driver->memory_allocate(state, 0, BYTES, &address, &error);
    driver->memory_free(state, 0, address, &error);
  }
  printf("time: %-36s %8.2f us\n", "allocate and free 4 MB",
         (now_us() - begin) / 100);
}

// --- Opening -----------------------------------------------------------------

static int kernel_load(void) {
  void *library = NULL;
  cuda_ok(api->library_load(&library, ptx, NULL, NULL, 0, NULL, NULL, 0),
          "cuLibraryLoadData");
  if (library != NULL)
    cuda_ok(api->library_kernel(&kernel, library, "axpy"),
            "cuLibraryGetKernel");
  return kernel != NULL;
}

static int driver_open(const char *path) {
  static const og_device_host host = {
      .struct_size = sizeof host, .options = "", .report = report};
  const og_device_driver *(*query)(uint32_t);
  char text[512];
  api = og_cuda_api_open_whole(text, sizeof text);
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (api == NULL || object == NULL) {
    printf("%s\n", api == NULL ? text : dlerror());
    return 0;
  }
  *(void **)&query = dlsym(object, "opgraft_device");
  driver = query(OG_DEVICE_ABI_VERSION);
  return OK(driver->open(&host, &state, &error));
}

// The primary context stays the thread's, as with PyTorch in the process.
static int context_take(void) {
  void *context = NULL;
  cuda_ok(api->context_retain(&context, 0), "cuDevicePrimaryCtxRetain");
  cuda_ok(api->context_set(context), "cuCtxSetCurrent");
  return context != NULL;
}

static void everything(memory *m) {
  og_device_properties found = {.struct_size = sizeof found};
  OK(driver->properties(state, 0, &found, &error));
  printf("device: %s, %.1f GB\n", found.model,
         (double)found.memory_bytes / 1e9);
  work_check(m);
  events_check(m);
  capture_check(m, m->streams[0]);
  capture_check(m, NULL);
  wrong_check(m);
  times_take(m);
  free(m->host);
  free(m->back);
  for (int i = 0; i < 2; ++i)
    OK(driver->stream_destroy(state, m->streams[i], &error));
  OK(driver->memory_free(state, 0, m->x, &error));
  OK(driver->memory_free(state, 0, m->y, &error));
  OK(driver->memory_free(state, 0, m->z, &error));
}

int main(int argc, char **argv) {
  memory m;
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char *path = argc > 1 ? argv[1] : "build/devices/cuda.so";
  if (driver_open(path)) {
    // Before any context is current, then with one.
    const int is_made = memory_make(&m) && context_take() && kernel_load();
    if (is_made) everything(&m);
    driver->close(state);
  } else {
    ++failed;
  }
  printf("gpu driver: %d passed, %d failed\n", passed, failed);
  return failed > 0;
}
