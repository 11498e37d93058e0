// SPDX-License-Identifier: Apache-2.0
// Simulated time of the simulated NPU, from the file that trace=FILE writes.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "device_sim.h"

// The model, as docs/devices.md states it.
enum {
  COPY_NS = 1000 + SIM_BYTES / 16,
  AXPY_BYTES = 2 * SIM_BYTES,
  AXPY_NS = 1000 + AXPY_BYTES / 64,
  HOST_NS = 1000,
  CORES = 4,
};

static char path[] = "/tmp/opgraft-trace-XXXXXX";

// --- Reading -----------------------------------------------------------------

typedef struct line {
  int id, stream, lane, replay, bytes, waits;  // waits: 0 for none
  int64_t start_ns, end_ns;
  char kind[24], name[24], engine[24];
} line;

enum { LINES = 64 };

typedef struct trace {
  line lines[LINES];
  int count;
} trace;

static int64_t number_of(const char *text, const char *key) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "\"%s\":", key);
  const char *at = strstr(text, wanted);
  if (!CHECK(at != NULL)) return -1;
  at += strlen(wanted);
  return strtoll(*at == '[' ? at + 1 : at, NULL, 10);
}

static void word_of(const char *text, const char *key, char out[24]) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "\"%s\":\"", key);
  const char *at = strstr(text, wanted);
  out[0] = '\0';
  if (at == NULL) return;
  at += strlen(wanted);
  snprintf(out, 24, "%.*s", (int)strcspn(at, "\""), at);
}

static void trace_read(trace *t) {
  char text[512];
  *t = (trace){0};
  FILE *file = fopen(path, "r");
  if (file == NULL) abort();
  while (t->count < LINES && fgets(text, sizeof text, file) != NULL) {
    line *l = &t->lines[t->count++];
    *l = (line){.id = (int)number_of(text, "id"),
                .stream = (int)number_of(text, "stream"),
                .lane = (int)number_of(text, "lane"),
                .replay = (int)number_of(text, "replay"),
                .bytes = (int)number_of(text, "bytes"),
                .waits = (int)number_of(text, "waits"),
                .start_ns = number_of(text, "start_ns"),
                .end_ns = number_of(text, "end_ns")};
    word_of(text, "kind", l->kind);
    word_of(text, "name", l->name);
    word_of(text, "engine", l->engine);
    CHECK_EQ(l->id, t->count);
    CHECK(l->start_ns <= l->end_ns);
  }
  fclose(file);
}

static const line *line_find(const trace *t, const char *name, int nth) {
  static const line none;
  for (int i = 0; i < t->count; ++i)
    if (strcmp(t->lines[i].name, name) == 0 && nth-- == 0) return &t->lines[i];
  CHECK(false);
  return &none;
}

static int64_t makespan(const trace *t) {
  int64_t end_ns = 0;
  for (int i = 0; i < t->count; ++i)
    if (t->lines[i].end_ns > end_ns) end_ns = t->lines[i].end_ns;
  return end_ns;
}

// --- A device with four vectors ----------------------------------------------

typedef struct bench {
  sim s;
  void *x, *y[4], *event;
} bench;

// `more` are options behind the trace's: "" or ",seed=1".
static bool bench_open(bench *b, const char *more) {
  char options[128];
  *b = (bench){0};
  snprintf(options, sizeof options, "trace=%s%s", path, more);
  if (!sim_open(&b->s, options)) return false;
  b->x = sim_floats(&b->s, "x");
  for (int i = 0; i < 4; ++i) b->y[i] = sim_floats(&b->s, "y");
  b->event = sim_event(&b->s);
  return true;
}

static void bench_close(bench *b, trace *t) {
  SIM_OK(&b->s,
         opgraft_driver_event_destroy(b->s.driver, b->event, &b->s.error));
  for (int i = 0; i < 4; ++i)
    SIM_OK(&b->s, opgraft_driver_stream_synchronize(b->s.driver, b->s.stream[i],
                                                    -1, &b->s.error));
  sim_free(&b->s, b->x);
  for (int i = 0; i < 4; ++i) sim_free(&b->s, b->y[i]);
  sim_close(&b->s);
  CHECK_EQ(b->s.reports, 0);
  trace_read(t);
}

static void axpy(bench *b, int stream) {
  SIM_OK(&b->s, sim_axpy_give(&b->s, stream, b->x, b->y[stream], 1));
}

static void record(bench *b, int stream) {
  sim_record(&b->s, b->event, stream);
}

static void wait(bench *b, int stream) {
  sim_wait_event(&b->s, b->event, stream);
}

// --- Streams -----------------------------------------------------------------

TEST(streams_overlap) {
  bench b;
  trace t;
  if (!bench_open(&b, "")) return;
  axpy(&b, 1);
  axpy(&b, 1);
  axpy(&b, 2);
  bench_close(&b, &t);
  CHECK_EQ(t.count, 3);
  CHECK_EQ(makespan(&t), 2 * AXPY_NS);
  CHECK_EQ(line_find(&t, "axpy", 1)->start_ns, AXPY_NS);
  CHECK_EQ(line_find(&t, "axpy", 2)->start_ns, 0);
  CHECK_EQ(line_find(&t, "axpy", 2)->bytes, AXPY_BYTES);
  CHECK_STR(line_find(&t, "axpy", 2)->kind, "launch");
  CHECK(strcmp(line_find(&t, "axpy", 0)->engine,
               line_find(&t, "axpy", 2)->engine) != 0);
}

TEST(an_event_orders_streams) {
  bench b;
  trace t;
  if (!bench_open(&b, "")) return;
  axpy(&b, 1);
  record(&b, 1);
  wait(&b, 2);
  axpy(&b, 2);
  bench_close(&b, &t);
  const line *waits = line_find(&t, "event_wait", 0);
  CHECK_EQ(makespan(&t), 2 * AXPY_NS);
  CHECK_EQ(waits->start_ns, 0);
  CHECK_EQ(waits->end_ns, AXPY_NS);
  CHECK_EQ(waits->waits, line_find(&t, "event_record", 0)->id);
  CHECK_EQ(line_find(&t, "axpy", 1)->waits, 0);
}

// Two ways of copies, and four cores for all that stays on the device.
TEST(engines_are_shared) {
  bench b;
  trace t;
  float values[2][SIM_FLOATS] = {{0}};
  if (!bench_open(&b, "")) return;
  for (int i = 1; i < 3; ++i)
    SIM_OK(&b.s, sim_copy(&b.s, i, OPGRAFT_COPY_TO_DEVICE, b.y[i], values[0]));
  SIM_OK(&b.s, sim_copy(&b.s, 3, OPGRAFT_COPY_TO_HOST, values[1], b.y[3]));
  bench_close(&b, &t);
  CHECK_EQ(makespan(&t), 2 * COPY_NS);
  CHECK_EQ(line_find(&t, "copy_to_device", 1)->start_ns, COPY_NS);
  CHECK_EQ(line_find(&t, "copy_to_host", 0)->start_ns, 0);
  CHECK_STR(line_find(&t, "copy_to_host", 0)->engine, "to host");
}

TEST(kernels_wait_for_a_core) {
  bench b;
  trace t;
  void *fifth = NULL;
  if (!bench_open(&b, "")) return;
  SIM_OK(&b.s, opgraft_driver_stream_create(b.s.driver, 0, &fifth, &b.s.error));
  for (int i = 0; i < CORES; ++i) axpy(&b, i);
  SIM_OK(&b.s,
         opgraft_driver_set(b.s.driver, fifth, b.x, 0, SIM_BYTES, &b.s.error));
  SIM_OK(&b.s, opgraft_driver_stream_destroy(b.s.driver, fifth, &b.s.error));
  bench_close(&b, &t);
  const line *set = line_find(&t, "memory_set", 0);
  CHECK_EQ(set->start_ns, AXPY_NS);
  CHECK_EQ(set->end_ns, AXPY_NS + 1000 + SIM_BYTES / 64);
  CHECK_EQ(set->bytes, SIM_BYTES);
}

static void nothing(void *user) { (void)user; }

TEST(the_host_orders_what_it_waited_for) {
  bench b;
  trace t;
  if (!bench_open(&b, "")) return;
  SIM_OK(&b.s, opgraft_driver_host_function(b.s.driver, b.s.stream[1], nothing,
                                            NULL, &b.s.error));
  record(&b, 1);
  SIM_OK(&b.s,
         opgraft_driver_event_synchronize(b.s.driver, b.event, -1, &b.s.error));
  axpy(&b, 2);
  SIM_OK(&b.s, sim_wait(&b.s, 2));
  axpy(&b, 3);
  bench_close(&b, &t);
  CHECK_STR(line_find(&t, "host_function", 0)->engine, "");
  CHECK_EQ(line_find(&t, "axpy", 0)->start_ns, HOST_NS);
  CHECK_EQ(line_find(&t, "axpy", 1)->start_ns, HOST_NS + AXPY_NS);
}

// A poll may find the work done or not, as delays have it.
TEST(a_poll_orders_nothing) {
  bench b;
  trace t;
  if (!bench_open(&b, "")) return;
  axpy(&b, 1);
  while (opgraft_driver_stream_synchronize(b.s.driver, b.s.stream[1], 0,
                                           &b.s.error) == OG_BUSY)
    usleep(100);
  axpy(&b, 2);
  bench_close(&b, &t);
  CHECK_EQ(makespan(&t), AXPY_NS);
}

// --- Replays -----------------------------------------------------------------

// An axpy on stream 1, and one on stream 2 that joins and is joined back.
static void *capture(bench *b) {
  void *graph = NULL, *exec = NULL;
  sim *s = &b->s;
  SIM_OK(s, opgraft_driver_capture_begin(s->driver, s->stream[1], &s->error));
  record(b, 1);
  wait(b, 2);
  axpy(b, 1);
  axpy(b, 2);
  record(b, 2);
  wait(b, 1);
  SIM_OK(s, opgraft_driver_capture_end(s->driver, s->stream[1], &graph,
                                       &s->error));
  SIM_OK(s,
         opgraft_driver_graph_instantiate(s->driver, graph, &exec, &s->error));
  SIM_OK(s, opgraft_driver_graph_destroy(s->driver, graph, &s->error));
  return exec;
}

TEST(lanes_of_a_replay_overlap) {
  bench b;
  trace t;
  if (!bench_open(&b, "")) return;
  void *exec = capture(&b);
  for (int i = 0; i < 2; ++i)
    SIM_OK(&b.s, opgraft_driver_exec_launch(b.s.driver, exec, b.s.stream[3],
                                            &b.s.error));
  SIM_OK(&b.s, opgraft_driver_exec_destroy(b.s.driver, exec, &b.s.error));
  bench_close(&b, &t);
  CHECK_EQ(t.count, 12);
  CHECK_EQ(makespan(&t), 2 * AXPY_NS);
  for (int n = 0; n < 4; ++n) {
    const line *l = line_find(&t, "axpy", n);
    CHECK_EQ(l->start_ns, n / 2 * AXPY_NS);
    CHECK_EQ(l->stream, 4);
    CHECK_EQ(l->lane, n % 2);
    CHECK(l->replay > 0);
  }
  CHECK_EQ(line_find(&t, "event_wait", 3)->waits,
           line_find(&t, "event_record", 3)->id);
}

// --- The file ----------------------------------------------------------------

static void work_of_all_kinds(bench *b) {
  float values[SIM_FLOATS] = {0};
  SIM_OK(&b->s, sim_copy(&b->s, 0, OPGRAFT_COPY_TO_DEVICE, b->x, values));
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 4; ++i) {
      axpy(b, i);
      record(b, i);
      wait(b, (i + 1) % 4);
    }
  SIM_OK(&b->s, sim_copy(&b->s, 3, OPGRAFT_COPY_ON_DEVICE, b->y[0], b->x));
  SIM_OK(&b->s, sim_wait(&b->s, 3));
}

TEST(delays_change_nothing) {
  static const char *const more[] = {"", ",seed=1,delay_us=300",
                                     ",delay_us=100,seed=7,races=1"};
  trace t[3];
  for (int i = 0; i < 3; ++i) {
    bench b;
    if (!bench_open(&b, more[i])) return;
    work_of_all_kinds(&b);
    bench_close(&b, &t[i]);
    CHECK_EQ(t[i].count, 1 + 3 * 4 * 3 + 1);
    CHECK(memcmp(&t[0], &t[i], sizeof t[0]) == 0);
  }
}

static void refused(const char *file, og_status code, const char *why) {
  opgraft_driver *driver = NULL;
  opgraft_error error = {0};
  char options[2048];
  snprintf(options, sizeof options, "trace=%s", file);
  CHECK_EQ(opgraft_driver_load(TEST_DEVICE_DIR "/npu_sim.so", options, &driver,
                               &error),
           code);
  if (!CHECK(strstr(error.text, why) != NULL)) printf("%s\n", error.text);
  opgraft_driver_destroy(driver);
}

TEST(files_that_are_wrong) {
  char long_name[1500];
  memset(long_name, 'a', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  refused("", OG_INVALID, "or trace=FILE");
  refused("/no/such/folder/x", OG_IO, "trace: /no/such/folder/x: No such file");
  refused(long_name, OG_INVALID, "has more than 1023 bytes");
  const int file = open(path, O_RDONLY);
  CHECK(flock(file, LOCK_EX) == 0);
  refused(path, OG_INVALID, "another device writes /tmp/opgraft-trace-");
  close(file);
}

TEST(a_name_may_have_the_process) {
  sim s;
  char options[96], made[96];
  snprintf(options, sizeof options, "trace=%s.%%p", path);
  snprintf(made, sizeof made, "%s.%d", path, (int)getpid());
  if (sim_open(&s, options)) sim_close(&s);
  CHECK_EQ(unlink(made), 0);
}

TEST(lines_that_are_lost_are_reported) {
  sim s;
  REQUIRE(sim_open(&s, "trace=/dev/full"));
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], nothing, NULL,
                                          &s.error));
  CHECK_EQ(s.reports, 0);
done:
  sim_close(&s);
  CHECK_EQ(s.reports, 1);
  CHECK(strstr(s.report, "/dev/full could not be written") != NULL);
}

static const test_case tests[] = {
    CASE_NO_FAULTS(streams_overlap),
    CASE_NO_FAULTS(an_event_orders_streams),
    CASE_NO_FAULTS(engines_are_shared),
    CASE_NO_FAULTS(kernels_wait_for_a_core),
    CASE_NO_FAULTS(the_host_orders_what_it_waited_for),
    CASE_NO_FAULTS(a_poll_orders_nothing),
    CASE_NO_FAULTS(lanes_of_a_replay_overlap),
    CASE_NO_FAULTS(delays_change_nothing),
    CASE_NO_FAULTS(files_that_are_wrong),
    CASE_NO_FAULTS(a_name_may_have_the_process),
    CASE_NO_FAULTS(lines_that_are_lost_are_reported),
};

int main(void) {
  const int file = mkstemp(path);
  if (file < 0) return 1;
  close(file);
  const int failed =
      test_run_all("device_trace", tests, sizeof tests / sizeof *tests);
  unlink(path);
  return failed;
}
