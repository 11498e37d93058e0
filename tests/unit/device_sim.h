// SPDX-License-Identifier: Apache-2.0
// The simulated NPU as tests use it, and a kernel with its launch.

#ifndef OG_TEST_DEVICE_SIM_H
#define OG_TEST_DEVICE_SIM_H

#include <opgraft/driver.h>
#include <stdio.h>
#include <string.h>

#include "device_axpy.h"
#include "test.h"

enum { SIM_FLOATS = 64, SIM_BYTES = SIM_FLOATS * 4 };

typedef struct sim {
  opgraft_driver *driver;
  opgraft_error error;
  void *stream[4];  // the first is the default one
  int reports;
  char report[1024];  // the last
} sim;

static void sim_report(void *user, og_status code, const char *text) {
  sim *s = user;
  (void)code;
  ++s->reports;
  snprintf(s->report, sizeof s->report, "%s", text);
}

// Whether it went well; says what did not.
static bool sim_ok(const sim *s, og_status status, int line) {
  if (status != OG_OK && test_now.fault < 0)
    printf("line %d: %s\n", line, s->error.text);
  return CHECK_EQ(status, OG_OK);
}
#define SIM_OK(s, call) sim_ok((s), (call), __LINE__)

static bool sim_open(sim *s, const char *options) {
  *s = (sim){0};
  if (!SIM_OK(s, opgraft_driver_load(TEST_DEVICE_DIR "/npu_sim.so", options,
                                     &s->driver, &s->error)))
    return false;
  opgraft_driver_on_report(s->driver, sim_report, s);
  s->stream[0] = opgraft_driver_default_stream(s->driver, 0);
  for (int i = 1; i < 4; ++i)
    if (!SIM_OK(s, opgraft_driver_stream_create(s->driver, 0, &s->stream[i],
                                                &s->error)))
      return false;
  return true;
}

static void sim_close(sim *s) {
  for (int i = 1; i < 4; ++i)
    if (s->stream[i] != NULL)
      SIM_OK(s,
             opgraft_driver_stream_destroy(s->driver, s->stream[i], &s->error));
  opgraft_driver_destroy(s->driver);
}

static void *sim_floats(sim *s, const char *label) {
  void *address = NULL;
  SIM_OK(s, opgraft_driver_allocate(s->driver, 0, SIM_BYTES, label, &address,
                                    &s->error));
  return address;
}

static inline void sim_free(sim *s, void *address) {
  SIM_OK(s, opgraft_driver_free(s->driver, 0, address, &s->error));
}

static inline og_status sim_copy(sim *s, int stream, int32_t kind, void *to,
                                 const void *from) {
  return opgraft_driver_copy(s->driver, s->stream[stream], kind, to, from,
                             SIM_BYTES, &s->error);
}

static og_status sim_wait(sim *s, int stream) {
  return opgraft_driver_stream_synchronize(s->driver, s->stream[stream], -1,
                                           &s->error);
}

static inline void *sim_event(sim *s) {
  void *event = NULL;
  SIM_OK(s, opgraft_driver_event_create(s->driver, 0, &event, &s->error));
  return event;
}

static inline void sim_record(sim *s, void *event, int stream) {
  SIM_OK(s, opgraft_driver_event_record(s->driver, event, s->stream[stream],
                                        &s->error));
}

static inline void sim_wait_event(sim *s, void *event, int stream) {
  SIM_OK(s, opgraft_driver_event_wait(s->driver, event, s->stream[stream],
                                      &s->error));
}

// y = a * x + y over SIM_FLOATS floats.
static og_status sim_axpy(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  if (call->attr[0].f == -1) return og_fail(call, OG_KERNEL, "a is -1");
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    y[i] += (float)call->attr[0].f * x[i];
  return OG_OK;
}

static inline const og_launch *sim_axpy_launch(axpy_call *c, void *x, void *y,
                                               double a) {
  return axpy_make(c, OG_EXT_DEV, sim_axpy, SIM_FLOATS, x, y, a);
}

static inline og_status sim_axpy_give(sim *s, int stream, void *x, void *y,
                                      double a) {
  axpy_call c;
  return opgraft_driver_launch(s->driver, s->stream[stream],
                               sim_axpy_launch(&c, x, y, a), &s->error);
}

static inline void sim_fill(float *values, float value) {
  for (int i = 0; i < SIM_FLOATS; ++i) values[i] = value;
}

static inline bool sim_all(const float *values, float wanted) {
  for (int i = 0; i < SIM_FLOATS; ++i)
    if (values[i] != wanted) return false;
  return true;
}

#endif  // OG_TEST_DEVICE_SIM_H
