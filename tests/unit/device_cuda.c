// SPDX-License-Identifier: Apache-2.0
// devices/cuda on the fake libcuda: every function of its table, each call of
// CUDA failing in turn, and what is wrong with captures.

#define _GNU_SOURCE
#include "device_cuda.h"

#include <stdatomic.h>

#include "base/status.h"

// --- Opening -----------------------------------------------------------------

typedef struct opening {
  const char *options, *symbol;
  int result;
  og_status status;
  const char *text;
} opening;

static const opening openings[] = {
    {"keep_mb=x", "*", 0, OG_INVALID, "the option is 'keep_mb=x', expected"},
    {"keep_mb=1,", "*", 0, OG_INVALID, "expected keep_mb=N from 0 to 1048576"},
    {"", "cuDeviceGetCount", 100, OG_DEVICE,
     "cuda: open: cuDeviceGetCount: CUDA_ERROR_NO_DEVICE, no CUDA-capable "
     "device is detected; check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {"", "cuDeviceGetName", 999, OG_DEVICE,
     "cuDeviceGetName: unknown result, no text"},
    {"", "cuDevicePrimaryCtxRetain", 2, OG_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"", "cuMemPoolCreate", 801, OG_UNSUPPORTED, "cuMemPoolCreate: CUDA_ERROR"},
    {"", "cuStreamCreate", 2, OG_MEMORY, "cuStreamCreate: CUDA_ERROR_OUT"},
};

TEST(openings_that_fail) {
  REQUIRE(fake_open());
  for (size_t i = 0; i < sizeof openings / sizeof *openings; ++i) {
    const opening *o = &openings[i];
    opgraft_driver *driver = NULL;
    opgraft_error error = {0};
    fake.reset(0);
    fake.fail(o->symbol, o->result != 0, o->result);
    const og_status status = opgraft_driver_load(TEST_DEVICE_DIR "/cuda.so",
                                                 o->options, &driver, &error);
    fake.fail("*", 0, 0);
    CHECK_EQ(status, o->status);
    if (!CHECK(strstr(error.text, o->text) != NULL) && test_now.fault < 0)
      printf("%s: %s\n", o->symbol, error.text);
    CHECK_EQ(gpu_left(), 0);
    opgraft_driver_destroy(driver);
  }
done:;
}

TEST(properties_and_pools) {
  gpu g;
  og_device_properties found = {.struct_size = sizeof found};
  for (int has_pools = 0; has_pools < 2; ++has_pools) {
    setenv("OPGRAFT_FAKE_POOLS", has_pools ? "1" : "0", 1);
    REQUIRE(gpu_open(&g, 0));
    GPU_OK(&g, opgraft_driver_properties(g.driver, 0, &found, &g.error));
    CHECK_STR(found.model, "fake GPU 0, sm_90");
    CHECK_EQ(found.alignment, 256);
    CHECK_EQ(found.memory_bytes, 64 << 20);
    CHECK_EQ(fake.count("pool"), has_pools);
    void *x = gpu_floats(&g, "x"), *huge = NULL;
    CHECK_EQ(opgraft_driver_allocate(g.driver, 0, (size_t)1 << 30, "huge",
                                     &huge, &g.error),
             OG_MEMORY);
    CHECK(strstr(g.error.text, "device 0 has no room for 1073741824 bytes"));
    gpu_free(&g, x);
    CHECK_EQ(opgraft_driver_free(g.driver, 0, x, &g.error), OG_INVALID);
    CHECK_EQ(fake.misuses(), 1);
  done:
    gpu_close(&g);
  }
}

// --- Streams, events, memory -------------------------------------------------

static void flag_set(void *user) { atomic_store((atomic_int *)user, 1); }

TEST(copies_sets_and_launches) {
  gpu g;
  float in[GPU_FLOATS], out[GPU_FLOATS];
  atomic_int flag = 0;
  void *x = NULL, *y = NULL;
  REQUIRE(gpu_open(&g, 0));
  x = gpu_floats(&g, "x");
  y = gpu_floats(&g, "y");
  // CUDA's own default streams are streams as well.
  void *const streams[] = {g.stream[0], g.stream[1], NULL, (void *)1,
                           (void *)2};
  for (int i = 0; i < 5; ++i) {
    void *s = streams[i];
    gpu_fill(in, (float)i);
    GPU_OK(&g, gpu_copy(&g, s, OPGRAFT_COPY_TO_DEVICE, x, in));
    GPU_OK(&g, opgraft_driver_set(g.driver, s, y, 0, GPU_BYTES, &g.error));
    GPU_OK(&g, axpy_give(&g, s, x, y, 3));
    GPU_OK(&g, gpu_copy(&g, s, OPGRAFT_COPY_ON_DEVICE, x, y));
    GPU_OK(&g, gpu_copy(&g, s, OPGRAFT_COPY_TO_HOST, out, x));
    GPU_OK(&g, opgraft_driver_host_function(g.driver, s, flag_set, &flag,
                                            &g.error));
    CHECK_EQ(opgraft_driver_stream_synchronize(g.driver, s, 0, &g.error),
             OG_BUSY);
    CHECK_EQ(atomic_load(&flag), 0);
    GPU_OK(&g, gpu_wait(&g, s));
    CHECK(gpu_all(out, 3 * (float)i));
    CHECK_EQ(atomic_exchange(&flag, 0), 1);
  }
  CHECK_EQ(axpy_give(&g, NULL, x, y, -1), OG_KERNEL);
  CHECK_STR(g.error.text, "cuda: launch: axpy: a is -1");
  CHECK_EQ(fake.misuses(), 0);
done:
  gpu_free(&g, x);
  gpu_free(&g, y);
  gpu_close(&g);
}

TEST(events_order_two_streams) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    gpu g;
    float in[GPU_FLOATS], out[GPU_FLOATS];
    void *x = NULL, *y = NULL, *event[2] = {NULL, NULL};
    int64_t ns = -1;
    REQUIRE(gpu_open(&g, seed));
    x = gpu_floats(&g, "x");
    y = gpu_floats(&g, "y");
    gpu_fill(in, 1);
    for (int i = 0; i < 2; ++i)
      GPU_OK(&g, opgraft_driver_event_create(g.driver, 0, &event[i], &g.error));
    GPU_OK(&g, opgraft_driver_event_wait(g.driver, event[0], g.stream[1],
                                         &g.error));
    GPU_OK(&g, gpu_copy(&g, g.stream[1], OPGRAFT_COPY_TO_DEVICE, x, in));
    GPU_OK(&g, opgraft_driver_event_record(g.driver, event[0], g.stream[1],
                                           &g.error));
    GPU_OK(&g, opgraft_driver_set(g.driver, g.stream[2], y, 0, GPU_BYTES,
                                  &g.error));
    GPU_OK(&g, opgraft_driver_event_wait(g.driver, event[0], g.stream[2],
                                         &g.error));
    GPU_OK(&g, axpy_give(&g, g.stream[2], x, y, 5));
    GPU_OK(&g, gpu_copy(&g, g.stream[2], OPGRAFT_COPY_TO_HOST, out, y));
    GPU_OK(&g, opgraft_driver_event_record(g.driver, event[1], g.stream[2],
                                           &g.error));
    if (seed == 0)
      CHECK_EQ(
          opgraft_driver_event_synchronize(g.driver, event[1], 0, &g.error),
          OG_BUSY);
    GPU_OK(&g, opgraft_driver_event_synchronize(
                   g.driver, event[1], seed % 2 ? -1 : 1000000000, &g.error));
    CHECK(gpu_all(out, 5));
    GPU_OK(&g, opgraft_driver_event_elapsed(g.driver, event[0], event[1], &ns,
                                            &g.error));
    CHECK(ns >= 0);
    CHECK_EQ(fake.misuses(), 0);
  done:
    for (int i = 0; i < 2; ++i)
      if (event[i] != NULL)
        GPU_OK(&g, opgraft_driver_event_destroy(g.driver, event[i], &g.error));
    gpu_free(&g, x);
    gpu_free(&g, y);
    gpu_close(&g);
  }
}

// --- Captures ----------------------------------------------------------------

typedef struct captured {
  gpu g;
  void *x, *y, *stream, *exec;
  float values[GPU_FLOATS];
} captured;

// y += a * x, a copy and y += 1 * x, captured on stream `s`.
static og_status capture(captured *c, void *s, double a) {
  gpu *g = &c->g;
  void *graph = NULL;
  og_status status;
  GPU_OK(g, opgraft_driver_capture_begin(g->driver, s, &g->error));
  GPU_OK(g, axpy_give(g, s, c->x, c->y, a));
  GPU_OK(g, gpu_copy(g, s, OPGRAFT_COPY_ON_DEVICE, c->x, c->x));
  GPU_OK(g, axpy_give(g, s, c->x, c->y, 1));
  status = opgraft_driver_capture_end(g->driver, s, &graph, &g->error);
  if (status != OG_OK) return status;
  status =
      opgraft_driver_graph_instantiate(g->driver, graph, &c->exec, &g->error);
  GPU_OK(g, opgraft_driver_graph_destroy(g->driver, graph, &g->error));
  return status;
}

static bool captured_begin(captured *c, unsigned seed) {
  *c = (captured){0};
  if (!gpu_open(&c->g, seed)) return false;
  c->x = gpu_floats(&c->g, "x");
  c->y = gpu_floats(&c->g, "y");
  gpu_fill(c->values, 1);
  GPU_OK(&c->g, gpu_copy(&c->g, c->g.stream[1], OPGRAFT_COPY_TO_DEVICE, c->x,
                         c->values));
  GPU_OK(&c->g, opgraft_driver_set(c->g.driver, c->g.stream[1], c->y, 0,
                                   GPU_BYTES, &c->g.error));
  return GPU_OK(&c->g, gpu_wait(&c->g, c->g.stream[1]));
}

static void captured_end(captured *c) {
  if (c->exec != NULL)
    GPU_OK(&c->g,
           opgraft_driver_exec_destroy(c->g.driver, c->exec, &c->g.error));
  gpu_free(&c->g, c->x);
  gpu_free(&c->g, c->y);
  gpu_close(&c->g);
}

static og_status update(captured *c, int32_t index, void *x, void *y,
                        double a) {
  axpy_call call;
  return opgraft_driver_exec_update(c->g.driver, c->exec, index,
                                    axpy_launch(&call, x, y, a), &c->g.error);
}

static void replay(captured *c, void *stream) {
  GPU_OK(&c->g,
         opgraft_driver_exec_launch(c->g.driver, c->exec, stream, &c->g.error));
}

static void expect(captured *c, void *stream, const void *from, float wanted) {
  GPU_OK(&c->g, gpu_copy(&c->g, stream, OPGRAFT_COPY_TO_HOST, c->values, from));
  GPU_OK(&c->g, gpu_wait(&c->g, stream));
  CHECK_EQ((int)c->values[0], (int)wanted);
  CHECK(gpu_all(c->values, wanted));
}

// Also on the legacy default stream, which CUDA itself does not capture.
static void replay_case(unsigned seed, bool is_legacy, double a) {
  captured c;
  void *z = NULL;
  REQUIRE(captured_begin(&c, seed));
  void *s = is_legacy ? NULL : c.g.stream[1];
  z = gpu_floats(&c.g, "z");
  GPU_OK(&c.g, opgraft_driver_set(c.g.driver, s, z, 0, GPU_BYTES, &c.g.error));
  REQUIRE(GPU_OK(&c.g, capture(&c, s, a)));
  const float first = (float)(a > 100 ? 2 * a : a) + 1;
  replay(&c, s);
  expect(&c, s, c.y, first);
  // The launch that is on its way keeps its arguments.
  replay(&c, s);
  GPU_OK(&c.g, update(&c, 0, c.x, z, a + 1));
  GPU_OK(&c.g, update(&c, 1, c.x, z, 10));
  replay(&c, s);
  expect(&c, s, c.y, (a > 100 ? 2 * (first + (float)a) : first + (float)a) + 1);
  expect(&c, s, z, (float)(a > 100 ? 2 * (a + 1) : a + 1) + 10);
  CHECK_EQ(fake.misuses(), 0);
done:
  gpu_free(&c.g, z);
  captured_end(&c);
}

TEST(a_capture_is_replayed_and_updated) { replay_case(0, false, 2); }
TEST(under_any_delay) {
  for (unsigned seed = 1; seed < 20; ++seed) replay_case(seed, false, 2);
}
TEST(on_the_legacy_stream) { replay_case(0, true, 2); }
TEST(launches_of_two_kernels) { replay_case(0, false, 101); }

TEST(updates_that_need_a_capture) {
  captured c;
  REQUIRE(captured_begin(&c, 0));
  REQUIRE(GPU_OK(&c.g, capture(&c, c.g.stream[1], 2)));
  CHECK_EQ(update(&c, 0, c.x, c.y, 101), OG_UNSUPPORTED);
  CHECK(strstr(c.g.error.text,
               "another number of CUDA kernels than in the "
               "capture; destroy the executable"));
  CHECK_EQ(update(&c, 0, c.x, c.y, 7), OG_UNSUPPORTED);
  CHECK(strstr(c.g.error.text, "its work is not a chain of kernels"));
  CHECK_EQ(update(&c, 2, c.x, c.y, 2), OG_INVALID);
  CHECK(strstr(c.g.error.text, "the capture has no launch 2"));
  CHECK_EQ(update(&c, 0, c.x, c.y, -1), OG_KERNEL);
  fake.fail("cuGraphExecKernelNodeSetParams_v2", 1, 1);
  CHECK_EQ(update(&c, 0, c.x, c.y, 3), OG_UNSUPPORTED);
  fake.fail("*", 0, 0);
  GPU_OK(&c.g, opgraft_driver_exec_destroy(c.g.driver, c.exec, &c.g.error));
  c.exec = NULL;
  // The first launch counts, although its nodes are not known.
  fake.fail("cuStreamGetCaptureInfo_v2", 2, 999);
  REQUIRE(GPU_OK(&c.g, capture(&c, c.g.stream[1], 3)));
  fake.fail("*", 0, 0);
  CHECK_EQ(update(&c, 0, c.x, c.y, 3), OG_UNSUPPORTED);
  GPU_OK(&c.g, update(&c, 1, c.x, c.y, 4));
  replay(&c, c.g.stream[1]);
  expect(&c, c.g.stream[1], c.y, 3 + 4);
  GPU_OK(&c.g, opgraft_driver_exec_destroy(c.g.driver, c.exec, &c.g.error));
  c.exec = NULL;
  REQUIRE(GPU_OK(&c.g, capture(&c, c.g.stream[1], 7)));
  CHECK_EQ(update(&c, 0, c.x, c.y, 7), OG_UNSUPPORTED);
  CHECK(strstr(c.g.error.text, "in the capture is not a chain"));
  GPU_OK(&c.g, update(&c, 1, c.x, c.y, 2));
done:
  captured_end(&c);
}

// Stream 2 joins the capture of stream 1, and is joined back or not.
static og_status join(captured *c, void *event[2], bool is_joined) {
  gpu *g = &c->g;
  void *graph = NULL, **s = g->stream;
  GPU_OK(g, opgraft_driver_capture_begin(g->driver, s[1], &g->error));
  GPU_OK(g, axpy_give(g, s[1], c->x, c->y, 2));
  GPU_OK(g, opgraft_driver_event_record(g->driver, event[0], s[1], &g->error));
  GPU_OK(g, opgraft_driver_event_wait(g->driver, event[0], s[2], &g->error));
  GPU_OK(g, axpy_give(g, s[2], c->x, c->y, 1));
  if (is_joined) {
    GPU_OK(g,
           opgraft_driver_event_record(g->driver, event[1], s[2], &g->error));
    GPU_OK(g, opgraft_driver_event_wait(g->driver, event[1], s[1], &g->error));
  }
  const og_status status =
      opgraft_driver_capture_end(g->driver, s[1], &graph, &g->error);
  if (status != OG_OK) return status;
  GPU_OK(g, opgraft_driver_graph_instantiate(g->driver, graph, &c->exec,
                                             &g->error));
  return opgraft_driver_graph_destroy(g->driver, graph, &g->error);
}

TEST(a_stream_joins_a_capture) {
  captured c;
  void *event[2] = {NULL, NULL};
  REQUIRE(captured_begin(&c, 0));
  for (int i = 0; i < 2; ++i)
    GPU_OK(&c.g,
           opgraft_driver_event_create(c.g.driver, 0, &event[i], &c.g.error));
  CHECK_EQ(join(&c, event, false), OG_INVALID);
  CHECK(strstr(c.g.error.text, "STREAM_CAPTURE_UNJOINED"));
  REQUIRE(GPU_OK(&c.g, join(&c, event, true)));
  replay(&c, c.g.stream[0]);
  GPU_OK(&c.g, update(&c, 1, c.x, c.y, 40));
  replay(&c, c.g.stream[0]);
  expect(&c, c.g.stream[0], c.y, 3 + 42);
done:
  for (int i = 0; i < 2; ++i)
    if (event[i] != NULL)
      GPU_OK(&c.g,
             opgraft_driver_event_destroy(c.g.driver, event[i], &c.g.error));
  captured_end(&c);
}

TEST(captures_that_are_wrong) {
  captured c;
  void *graph = NULL;
  REQUIRE(captured_begin(&c, 0));
  for (int is_legacy = 0; is_legacy < 2; ++is_legacy) {
    void *s = is_legacy ? NULL : c.g.stream[1];
    CHECK_EQ(opgraft_driver_capture_end(c.g.driver, s, &graph, &c.g.error),
             OG_INVALID);
    CHECK(strstr(c.g.error.text, "began no capture"));
    GPU_OK(&c.g, opgraft_driver_capture_begin(c.g.driver, s, &c.g.error));
    CHECK_EQ(opgraft_driver_capture_begin(c.g.driver, s, &c.g.error),
             OG_INVALID);
    CHECK(strstr(c.g.error.text, "captures already"));
    CHECK_EQ(gpu_wait(&c.g, s), OG_INVALID);
    CHECK(strstr(c.g.error.text, "captures, so nothing runs on it"));
    CHECK(opgraft_driver_stream_destroy(c.g.driver, s, &c.g.error) ==
          OG_INVALID);
    GPU_OK(&c.g, opgraft_driver_capture_end(c.g.driver, s, &graph, &c.g.error));
    GPU_OK(&c.g, opgraft_driver_graph_destroy(c.g.driver, graph, &c.g.error));
  }
  CHECK_EQ(fake.misuses(), 0);
done:
  captured_end(&c);
}

// --- A GPU that is lost ------------------------------------------------------

TEST(a_lost_context_is_an_error) {
  captured c;
  REQUIRE(captured_begin(&c, 0));
  void *old = c.y;
  gpu_free(&c.g, old);
  c.y = gpu_floats(&c.g, "y");
  GPU_OK(&c.g, axpy_give(&c.g, c.g.stream[1], c.x, old, 1));
  CHECK_EQ(gpu_wait(&c.g, c.g.stream[1]), OG_DEVICE);
  CHECK(strstr(c.g.error.text,
               "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal "
               "memory access was encountered; the GPU's context is lost: end "
               "this process") != NULL);
  CHECK_EQ(axpy_give(&c.g, c.g.stream[2], c.x, c.y, 1), OG_DEVICE);
  CHECK_EQ(opgraft_driver_free(c.g.driver, 0, c.x, &c.g.error), OG_DEVICE);
  GPU_OK(&c.g,
         opgraft_driver_stream_destroy(c.g.driver, c.g.stream[2], &c.g.error));
  CHECK_EQ(c.g.reports, 1);
  fake.reset(0);  // which CUDA cannot do
  GPU_OK(&c.g,
         opgraft_driver_stream_destroy(c.g.driver, c.g.stream[2], &c.g.error));
  c.g.stream[2] = NULL;
done:
  captured_end(&c);
}

// --- Each call of CUDA failing in turn ---------------------------------------

// What a failed call left is done by a second one: it has done nothing.
static void twice(gpu *g,
                  og_status (*fn)(opgraft_driver *, void *, opgraft_error *),
                  void *handle) {
  if (handle != NULL && fn(g->driver, handle, &g->error) != OG_OK)
    CHECK_EQ(fn(g->driver, handle, &g->error), OG_OK);
}

static og_status memory_end(opgraft_driver *driver, void *address,
                            opgraft_error *error) {
  return opgraft_driver_free(driver, 0, address, error);
}

typedef struct all {
  gpu g;
  void *x, *event, *graph, *exec, *stream;
  float values[GPU_FLOATS];
} all;

static og_status all_capture(all *a) {
  gpu *g = &a->g;
  opgraft_driver *d = g->driver;
  axpy_call call;
  OG_TRY(opgraft_driver_capture_begin(d, NULL, &g->error));
  const og_status given = axpy_give(g, NULL, a->x, a->x, 1);
  const og_status ended =
      opgraft_driver_capture_end(d, NULL, &a->graph, &g->error);
  if (ended != OG_OK)  // where it did nothing, the capture goes on
    opgraft_driver_capture_end(d, NULL, &a->graph, &g->error);
  OG_TRY(given);
  OG_TRY(ended);
  OG_TRY(opgraft_driver_graph_instantiate(d, a->graph, &a->exec, &g->error));
  OG_TRY(opgraft_driver_exec_launch(d, a->exec, NULL, &g->error));
  OG_TRY(opgraft_driver_exec_update(
      d, a->exec, 0, axpy_launch(&call, a->x, a->x, 2), &g->error));
  return opgraft_driver_exec_launch(d, a->exec, a->stream, &g->error);
}

// Every function of the table that gives work.
static og_status all_give(all *a) {
  gpu *g = &a->g;
  opgraft_driver *d = g->driver;
  atomic_int flag = 0;
  int64_t ns;
  OG_TRY(opgraft_driver_stream_create(d, 0, &a->stream, &g->error));
  OG_TRY(opgraft_driver_event_create(d, 0, &a->event, &g->error));
  OG_TRY(opgraft_driver_allocate(d, 0, GPU_BYTES, "x", &a->x, &g->error));
  OG_TRY(opgraft_driver_set(d, NULL, a->x, 0, GPU_BYTES, &g->error));
  OG_TRY(gpu_copy(g, NULL, OPGRAFT_COPY_TO_DEVICE, a->x, a->values));
  OG_TRY(gpu_copy(g, NULL, OPGRAFT_COPY_ON_DEVICE, a->x, a->x));
  OG_TRY(axpy_give(g, NULL, a->x, a->x, 1));
  OG_TRY(opgraft_driver_event_record(d, a->event, NULL, &g->error));
  OG_TRY(opgraft_driver_event_wait(d, a->event, a->stream, &g->error));
  OG_TRY(
      opgraft_driver_host_function(d, a->stream, flag_set, &flag, &g->error));
  const og_status waited = gpu_wait(g, a->stream);
  OG_TRY(waited == OG_OK ? waited : (gpu_wait(g, a->stream), waited));
  OG_TRY(opgraft_driver_event_synchronize(d, a->event, 1000000, &g->error));
  OG_TRY(opgraft_driver_event_elapsed(d, a->event, a->event, &ns, &g->error));
  OG_TRY(all_capture(a));
  OG_TRY(gpu_copy(g, a->stream, OPGRAFT_COPY_TO_HOST, a->values, a->x));
  return opgraft_driver_stream_synchronize(d, a->stream, 1000000000, &g->error);
}

static bool is_met_open;  // before the last driver closed, which fails nobody

static og_status all_run(void) {
  all a = {0};
  gpu *g = &a.g;
  is_met_open = true;
  og_status status = opgraft_driver_load(TEST_DEVICE_DIR "/cuda.so", NULL,
                                         &g->driver, &g->error);
  if (status != OG_OK) return status;
  gpu_fill(a.values, 1);
  status = all_give(&a);
  // The work reads memory of this frame.
  if (a.stream != NULL) gpu_wait(g, a.stream);
  gpu_wait(g, NULL);
  twice(g, opgraft_driver_exec_destroy, a.exec);
  twice(g, opgraft_driver_graph_destroy, a.graph);
  twice(g, opgraft_driver_event_destroy, a.event);
  twice(g, memory_end, a.x);
  twice(g, opgraft_driver_stream_destroy, a.stream);
  is_met_open = fake.met() != NULL;
  opgraft_driver_destroy(g->driver);
  if (status == OG_OK && !CHECK(gpu_all(a.values, 2 * 2 * 3)))
    printf("although %s failed, if any, all is ok\n", fake.met());
  return status;
}

// What CUDA could not end stays.
static bool is_ending(const char *symbol) {
  return strstr(symbol, "Destroy") != NULL ||
         strstr(symbol, "Release") != NULL || strstr(symbol, "Free") != NULL ||
         strstr(symbol, "EndCapture") != NULL ||
         strstr(symbol, "SetCurrent") != NULL;
}

TEST(each_call_of_cuda_fails_in_turn) {
  int met = 0;
  char symbol[64];
  og_status status = OG_OK;
  REQUIRE(fake_open() && fake_kernels());
  for (int nth = 1;; ++nth) {
    const int left = gpu_left();
    fake.reset(0);
    fake.fail("*", nth, nth % 2 ? 2 : 999);
    status = all_run();
    if (fake.met() == NULL) break;
    snprintf(symbol, sizeof symbol, "%s", fake.met());
    ++met;
    fake.fail("*", 0, 0);
    if (is_ending(symbol) || !is_met_open || CHECK_EQ(gpu_left(), left))
      continue;
    printf("after call %d, %s, failed\n", nth, symbol);
    break;
  }
  CHECK_EQ(status, OG_OK);
  CHECK(met > 100);
done:;
}

TEST_MAIN("device_cuda", CASE(openings_that_fail), CASE(properties_and_pools),
          CASE_NO_FAULTS(copies_sets_and_launches),
          CASE_NO_FAULTS(events_order_two_streams),
          CASE_NO_FAULTS(a_capture_is_replayed_and_updated),
          CASE_NO_FAULTS(under_any_delay), CASE_NO_FAULTS(on_the_legacy_stream),
          CASE_NO_FAULTS(launches_of_two_kernels),
          CASE_NO_FAULTS(updates_that_need_a_capture),
          CASE_NO_FAULTS(a_stream_joins_a_capture),
          CASE_NO_FAULTS(captures_that_are_wrong),
          CASE_NO_FAULTS(a_lost_context_is_an_error),
          CASE_NO_FAULTS(each_call_of_cuda_fails_in_turn))
