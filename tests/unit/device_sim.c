// SPDX-License-Identifier: Apache-2.0
// The simulated NPU through its driver: memory that the host cannot touch,
// streams with random delays, events, captures.

#define _GNU_SOURCE
#include "device_sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// --- Memory ------------------------------------------------------------------

TEST(copies_in_three_directions) {
  sim s;
  float a[SIM_FLOATS], b[SIM_FLOATS];
  void *x = NULL, *y = NULL;
  REQUIRE(sim_open(&s, "seed=1,delay_us=200"));
  x = sim_floats(&s, "x");
  y = sim_floats(&s, "y");
  for (int i = 0; i < SIM_FLOATS; ++i) a[i] = (float)i;
  SIM_OK(&s, sim_copy(&s, 0, OPGRAFT_COPY_TO_DEVICE, x, a));
  SIM_OK(&s, sim_copy(&s, 0, OPGRAFT_COPY_ON_DEVICE, y, x));
  SIM_OK(&s, sim_copy(&s, 0, OPGRAFT_COPY_TO_HOST, b, y));
  SIM_OK(&s, sim_wait(&s, 0));
  CHECK(memcmp(a, b, sizeof a) == 0);
  SIM_OK(&s,
         opgraft_driver_set(s.driver, s.stream[0], y, 0, SIM_BYTES, &s.error));
  SIM_OK(&s, sim_copy(&s, 0, OPGRAFT_COPY_TO_HOST, b, y));
  SIM_OK(&s, sim_wait(&s, 0));
  CHECK(sim_all(b, 0));
done:
  sim_free(&s, x);
  sim_free(&s, y);
  sim_close(&s);
}

TEST(addresses_that_are_wrong) {
  sim s;
  float a[SIM_FLOATS];
  void *x = NULL;
  REQUIRE(sim_open(&s, NULL));
  x = sim_floats(&s, "x");
  CHECK_EQ(sim_copy(&s, 0, OPGRAFT_COPY_TO_DEVICE, a, a), OG_INVALID);
  CHECK(strstr(s.error.text, "is no device memory") != NULL);
  CHECK_EQ(sim_copy(&s, 0, OPGRAFT_COPY_TO_HOST, x, x), OG_INVALID);
  CHECK(strstr(s.error.text, "is device memory, expected the host's") != NULL);
  CHECK_EQ(sim_copy(&s, 0, OPGRAFT_COPY_TO_DEVICE, (char *)x + 4, a),
           OG_INVALID);
  CHECK(strstr(s.error.text, "reach beyond its end") != NULL);
  CHECK_EQ(opgraft_driver_free(s.driver, 0, (char *)x + 4, &s.error),
           OG_INVALID);
  sim_free(&s, x);
  CHECK_EQ(opgraft_driver_free(s.driver, 0, x, &s.error), OG_INVALID);
  CHECK_EQ(sim_copy(&s, 0, OPGRAFT_COPY_TO_DEVICE, x, a), OG_INVALID);
  CHECK(strstr(s.error.text, "it was freed") != NULL);
done:
  sim_close(&s);
}

TEST(memory_runs_out_and_comes_back) {
  sim s;
  void *blocks[8] = {NULL}, *more = NULL;
  const size_t half_bytes = (size_t)512 << 10;
  REQUIRE(sim_open(&s, "memory_mb=1"));
  SIM_OK(&s, opgraft_driver_allocate(s.driver, 0, half_bytes, "a", &blocks[0],
                                     &s.error));
  CHECK_EQ(
      opgraft_driver_allocate(s.driver, 0, half_bytes, "b", &more, &s.error),
      OG_MEMORY);
  CHECK_STR(s.error.text,
            "npu: memory_allocate: no room for 524288 bytes: 524288 of "
            "1048576 are in use");
  for (int i = 1; i < 8; ++i)
    SIM_OK(&s, opgraft_driver_allocate(s.driver, 0, 1000, "c", &blocks[i],
                                       &s.error));
  for (int i = 0; i < 8; i += 2) sim_free(&s, blocks[i]);
  SIM_OK(&s, opgraft_driver_allocate(s.driver, 0, half_bytes, "b", &more,
                                     &s.error));
  CHECK(more == blocks[0]);
  for (int i = 1; i < 8; i += 2) sim_free(&s, blocks[i]);
  sim_free(&s, more);
done:
  sim_close(&s);
}

TEST(options_that_are_wrong) {
  static const char *const options[] = {"speed=3", "seed",        "seed=x",
                                        "races=2", "memory_mb=0", "seed=-1"};
  for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
    opgraft_driver *driver;
    opgraft_error error = {0};
    CHECK_EQ(opgraft_driver_load(TEST_DEVICE_DIR "/npu_sim.so", options[i],
                                 &driver, &error),
             OG_INVALID);
    CHECK(strstr(error.text, options[i]) != NULL);
  }
}

#if TEST_FORK_WITH_THREADS
// The child has the handler of the driver that it opens itself.
static void fault_child(int write_to) {
  opgraft_driver *driver;
  opgraft_error error;
  void *address;
  dup2(write_to, STDERR_FILENO);
  signal(SIGSEGV, SIG_DFL);
  if (opgraft_driver_load(TEST_DEVICE_DIR "/npu_sim.so", NULL, &driver,
                          &error) != OG_OK ||
      opgraft_driver_allocate(driver, 0, 48, "weights", &address, &error) !=
          OG_OK)
    _exit(1);
  _exit(((volatile char *)address)[12]);
}

TEST(host_access_faults_and_names_the_owner) {
  int ends[2], status = 0;
  char text[512];
  if (pipe(ends) != 0) abort();
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) fault_child(ends[1]);
  close(ends[1]);
  const ssize_t got = read(ends[0], text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  CHECK_STR(text,
            "npu: the host accesses byte 12 of 'weights' (48 bytes), expected "
            "a copy: device memory is not the host's\n");
}
#endif

// --- Streams and events ------------------------------------------------------

static void flag_wait(void *user) {
  while (!atomic_load((atomic_int *)user)) usleep(100);
}

static void count_up(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

// The stream's work is done, which the race detector does not hear of.
static void work_pass(sim *s, int stream) {
  atomic_int flag = 0;
  SIM_OK(s, opgraft_driver_host_function(s->driver, s->stream[stream], count_up,
                                         &flag, &s->error));
  flag_wait(&flag);
}

TEST(streams_are_asynchronous) {
  sim s;
  atomic_int flag = 0, count = 0;
  REQUIRE(sim_open(&s, NULL));
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], flag_wait,
                                          &flag, &s.error));
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], count_up,
                                          &count, &s.error));
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[2], count_up,
                                          &count, &s.error));
  SIM_OK(&s, sim_wait(&s, 2));
  CHECK_EQ(atomic_load(&count), 1);
  CHECK_EQ(
      opgraft_driver_stream_synchronize(s.driver, s.stream[1], 0, &s.error),
      OG_BUSY);
  CHECK_EQ(opgraft_driver_stream_synchronize(s.driver, s.stream[1], 2000000,
                                             &s.error),
           OG_BUSY);
  CHECK(strstr(s.error.text, "still has 2 works to do") != NULL);
  atomic_store(&flag, 1);
  SIM_OK(&s, sim_wait(&s, 1));
  CHECK_EQ(atomic_load(&count), 2);
done:
  atomic_store(&flag, 1);
  sim_close(&s);
}

// Stream 1 makes x, stream 2 adds it to y, stream 3 reads y back.
static void chain_run(sim *s, float *back) {
  float ones[SIM_FLOATS], zeros[SIM_FLOATS];
  void *x = sim_floats(s, "x"), *y = sim_floats(s, "y");
  void *event[3] = {NULL};
  sim_fill(ones, 1);
  sim_fill(zeros, 0);
  for (int i = 0; i < 3; ++i) event[i] = sim_event(s);
  SIM_OK(s, sim_copy(s, 2, OPGRAFT_COPY_TO_DEVICE, y, zeros));
  SIM_OK(s, sim_copy(s, 1, OPGRAFT_COPY_TO_DEVICE, x, ones));
  sim_record(s, event[0], 1);
  sim_wait_event(s, event[0], 2);
  SIM_OK(s, sim_axpy_give(s, 2, x, y, 3));
  sim_record(s, event[1], 2);
  sim_wait_event(s, event[1], 3);
  SIM_OK(s, sim_copy(s, 3, OPGRAFT_COPY_TO_HOST, back, y));
  sim_record(s, event[2], 3);
  SIM_OK(s,
         opgraft_driver_event_synchronize(s->driver, event[2], -1, &s->error));
  int64_t elapsed_ns = -1;
  SIM_OK(s, opgraft_driver_event_elapsed(s->driver, event[0], event[2],
                                         &elapsed_ns, &s->error));
  CHECK(elapsed_ns >= 0);
  for (int i = 0; i < 3; ++i)
    SIM_OK(s, opgraft_driver_event_destroy(s->driver, event[i], &s->error));
  sim_free(s, x);
  sim_free(s, y);
}

TEST(events_order_streams_under_any_delay) {
  for (int seed = 0; seed < 20; ++seed) {
    sim s;
    float back[SIM_FLOATS];
    char options[64];
    snprintf(options, sizeof options, "seed=%d,delay_us=300,races=1", seed);
    if (!sim_open(&s, options)) break;
    chain_run(&s, back);
    CHECK(sim_all(back, 3));
    CHECK_EQ(s.reports, 0);
    if (s.reports > 0) printf("%s\n", s.report);
    sim_close(&s);
  }
}

TEST(an_event_stands_for_its_latest_record) {
  sim s;
  atomic_int flag = 0;
  REQUIRE(sim_open(&s, NULL));
  void *const event = sim_event(&s);
  // Never recorded: nothing waits.
  sim_wait_event(&s, event, 2);
  SIM_OK(&s, opgraft_driver_event_synchronize(s.driver, event, 0, &s.error));
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], flag_wait,
                                          &flag, &s.error));
  sim_record(&s, event, 1);
  sim_wait_event(&s, event, 2);
  CHECK_EQ(opgraft_driver_event_synchronize(s.driver, event, 0, &s.error),
           OG_BUSY);
  // A later record is done first; stream 2 still waits for the earlier one.
  sim_record(&s, event, 3);
  SIM_OK(&s, opgraft_driver_event_synchronize(s.driver, event, -1, &s.error));
  CHECK_EQ(opgraft_driver_stream_synchronize(s.driver, s.stream[2], 1000000,
                                             &s.error),
           OG_BUSY);
  SIM_OK(&s, opgraft_driver_event_destroy(s.driver, event, &s.error));
  atomic_store(&flag, 1);
  SIM_OK(&s, sim_wait(&s, 2));
done:
  atomic_store(&flag, 1);
  sim_close(&s);
}

// --- Threads -----------------------------------------------------------------

enum { THREADS = 3, ROUNDS = 40 };

typedef struct worker {
  sim *s;
  int stream;
  void *event;  // of all workers
  bool is_right;
} worker;

// Its own memory on its own stream; the event is everyone's.
static void *worker_run(void *user) {
  worker *w = user;
  sim *s = w->s;
  opgraft_error error;
  float values[SIM_FLOATS];
  void *x = NULL, *y = NULL;
  w->is_right = true;
  for (int round = 0; w->is_right && round < ROUNDS; ++round) {
    void *stream = s->stream[w->stream];
    axpy_call call;
    sim_fill(values, (float)round);
    w->is_right =
        opgraft_driver_allocate(s->driver, 0, SIM_BYTES, "x", &x, &error) ==
            OG_OK &&
        opgraft_driver_allocate(s->driver, 0, SIM_BYTES, "y", &y, &error) ==
            OG_OK &&
        opgraft_driver_copy(s->driver, stream, OPGRAFT_COPY_TO_DEVICE, x,
                            values, SIM_BYTES, &error) == OG_OK &&
        opgraft_driver_set(s->driver, stream, y, 0, SIM_BYTES, &error) ==
            OG_OK &&
        opgraft_driver_event_record(s->driver, w->event, stream, &error) ==
            OG_OK &&
        opgraft_driver_event_wait(s->driver, w->event, stream, &error) ==
            OG_OK &&
        opgraft_driver_launch(s->driver, stream,
                              sim_axpy_launch(&call, x, y, 2),
                              &error) == OG_OK &&
        opgraft_driver_copy(s->driver, stream, OPGRAFT_COPY_TO_HOST, values, y,
                            SIM_BYTES, &error) == OG_OK &&
        opgraft_driver_stream_synchronize(s->driver, stream, -1, &error) ==
            OG_OK &&
        sim_all(values, 2 * (float)round) &&
        opgraft_driver_free(s->driver, 0, x, &error) == OG_OK &&
        opgraft_driver_free(s->driver, 0, y, &error) == OG_OK;
  }
  return NULL;
}

TEST(calls_from_many_threads) {
  sim s;
  pthread_t threads[THREADS];
  worker workers[THREADS];
  REQUIRE(sim_open(&s, "delay_us=30,races=1"));
  void *const event = sim_event(&s);
  for (int i = 0; i < THREADS; ++i) {
    workers[i] = (worker){.s = &s, .stream = i + 1, .event = event};
    if (pthread_create(&threads[i], NULL, worker_run, &workers[i]) != 0)
      abort();
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(workers[i].is_right);
  }
  CHECK_EQ(s.reports, 0);
  SIM_OK(&s, opgraft_driver_event_destroy(s.driver, event, &s.error));
done:
  sim_close(&s);
}

TEST(a_kernel_that_fails_is_told_once) {
  sim s;
  void *x = NULL, *y = NULL;
  REQUIRE(sim_open(&s, NULL));
  x = sim_floats(&s, "x");
  y = sim_floats(&s, "y");
  SIM_OK(&s, sim_axpy_give(&s, 1, x, y, -1));
  CHECK_EQ(sim_wait(&s, 1), OG_KERNEL);
  CHECK(strstr(s.error.text, "axpy: a is -1") != NULL);
  SIM_OK(&s, sim_wait(&s, 1));
done:
  sim_free(&s, x);
  sim_free(&s, y);
  sim_close(&s);
}

// What failed before the record is the event's to tell, what failed behind it
// the stream's.
TEST(an_event_tells_what_failed_before_it) {
  sim s;
  void *x = NULL, *y = NULL, *event = NULL;
  REQUIRE(sim_open(&s, "delay_us=300"));
  x = sim_floats(&s, "x");
  y = sim_floats(&s, "y");
  event = sim_event(&s);
  for (int is_behind = 0; is_behind < 2; ++is_behind) {
    if (!is_behind) SIM_OK(&s, sim_axpy_give(&s, 1, x, y, -1));
    sim_record(&s, event, 1);
    if (is_behind) SIM_OK(&s, sim_axpy_give(&s, 1, x, y, -1));
    CHECK_EQ(opgraft_driver_event_synchronize(s.driver, event, -1, &s.error),
             is_behind ? OG_OK : OG_KERNEL);
    CHECK_EQ(sim_wait(&s, 1), is_behind ? OG_KERNEL : OG_OK);
    CHECK(strstr(s.error.text, "axpy: a is -1") != NULL);
  }
  SIM_OK(&s, opgraft_driver_event_destroy(s.driver, event, &s.error));
done:
  sim_free(&s, x);
  sim_free(&s, y);
  sim_close(&s);
}

TEST(a_stream_that_goes_reports_what_failed) {
  sim s;
  void *x = NULL, *y = NULL;
  REQUIRE(sim_open(&s, "delay_us=300"));
  x = sim_floats(&s, "x");
  y = sim_floats(&s, "y");
  SIM_OK(&s, sim_axpy_give(&s, 1, x, y, -1));
  SIM_OK(&s, opgraft_driver_stream_destroy(s.driver, s.stream[1], &s.error));
  s.stream[1] = NULL;
  CHECK_EQ(s.reports, 1);
  CHECK(strstr(s.report, "axpy: a is -1") != NULL);
done:
  sim_free(&s, x);
  sim_free(&s, y);
  sim_close(&s);
}

// --- Captures ----------------------------------------------------------------

typedef struct captured {
  void *x, *y;
  void *event[2];
  void *exec;
} captured;

// y += 2 * x on stream 1, then y += 1 * x on stream 2, which joins and is
// joined back where `is_joined`.
static og_status capture(sim *s, captured *c, bool is_joined) {
  void *graph = NULL;
  c->exec = NULL;
  SIM_OK(s, opgraft_driver_capture_begin(s->driver, s->stream[1], &s->error));
  SIM_OK(s, sim_axpy_give(s, 1, c->x, c->y, 2));
  sim_record(s, c->event[0], 1);
  sim_wait_event(s, c->event[0], 2);
  SIM_OK(s, sim_axpy_give(s, 2, c->x, c->y, 1));
  if (is_joined) {
    sim_record(s, c->event[1], 2);
    sim_wait_event(s, c->event[1], 1);
  }
  const og_status status =
      opgraft_driver_capture_end(s->driver, s->stream[1], &graph, &s->error);
  if (status != OG_OK) return status;
  SIM_OK(s, opgraft_driver_graph_instantiate(s->driver, graph, &c->exec,
                                             &s->error));
  SIM_OK(s, opgraft_driver_graph_destroy(s->driver, graph, &s->error));
  return OG_OK;
}

static bool captured_begin(sim *s, captured *c, const char *options) {
  *c = (captured){0};
  if (!sim_open(s, options)) return false;
  c->x = sim_floats(s, "x");
  c->y = sim_floats(s, "y");
  for (int i = 0; i < 2; ++i) c->event[i] = sim_event(s);
  return true;
}

static void captured_end(sim *s, captured *c) {
  if (c->exec != NULL)
    SIM_OK(s, opgraft_driver_exec_destroy(s->driver, c->exec, &s->error));
  for (int i = 0; i < 2; ++i)
    SIM_OK(s, opgraft_driver_event_destroy(s->driver, c->event[i], &s->error));
  sim_free(s, c->x);
  sim_free(s, c->y);
  sim_close(s);
}

TEST(a_capture_is_replayed_and_updated) {
  sim s;
  captured c;
  float values[SIM_FLOATS];
  axpy_call call;
  REQUIRE(captured_begin(&s, &c, "delay_us=100,races=1"));
  sim_fill(values, 1);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_DEVICE, c.x, values));
  SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[1], c.y, 0, SIM_BYTES,
                                &s.error));
  SIM_OK(&s, sim_wait(&s, 1));
  SIM_OK(&s, capture(&s, &c, true));
  REQUIRE(c.exec != NULL);
  for (int i = 0; i < 3; ++i)
    SIM_OK(&s, opgraft_driver_exec_launch(s.driver, c.exec, s.stream[i % 2],
                                          &s.error));
  SIM_OK(&s, opgraft_driver_exec_update(s.driver, c.exec, 1,
                                        sim_axpy_launch(&call, c.x, c.y, 10),
                                        &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[0], &s.error));
  SIM_OK(&s, sim_copy(&s, 0, OPGRAFT_COPY_TO_HOST, values, c.y));
  SIM_OK(&s, sim_wait(&s, 0));
  CHECK_EQ((int)values[0], 3 * 3 + 12);
  CHECK(sim_all(values, values[0]));
  CHECK_EQ(s.reports, 0);
  if (s.reports > 0) printf("%s\n", s.report);
  CHECK_EQ(
      opgraft_driver_exec_update(
          s.driver, c.exec, 2, sim_axpy_launch(&call, c.x, c.y, 10), &s.error),
      OG_INVALID);
  CHECK(strstr(s.error.text, "the capture has no launch 2") != NULL);
done:
  captured_end(&s, &c);
}

// The host would wait for ever if it did; the launch before is as it was given.
TEST(an_update_waits_for_no_launch) {
  sim s;
  captured c;
  float values[SIM_FLOATS];
  axpy_call call;
  atomic_int flag = 0;
  REQUIRE(captured_begin(&s, &c, "races=1"));
  sim_fill(values, 1);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_DEVICE, c.x, values));
  SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[1], c.y, 0, SIM_BYTES,
                                &s.error));
  SIM_OK(&s, capture(&s, &c, true));
  REQUIRE(c.exec != NULL);
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], flag_wait,
                                          &flag, &s.error));
  for (int i = 0; i < 2; ++i) {
    SIM_OK(&s,
           opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
    for (int a = 5; a <= 10; a += 5)
      SIM_OK(&s, opgraft_driver_exec_update(
                     s.driver, c.exec, 1,
                     sim_axpy_launch(&call, c.x, c.y, (float)a), &s.error));
  }
  atomic_store(&flag, 1);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_HOST, values, c.y));
  SIM_OK(&s, sim_wait(&s, 1));
  CHECK_EQ((int)values[0], 3 + 12);
  CHECK_EQ(s.reports, 0);
done:
  atomic_store(&flag, 1);
  captured_end(&s, &c);
}

TEST(a_stale_address_is_found_at_the_launch) {
  sim s;
  captured c;
  axpy_call call;
  REQUIRE(captured_begin(&s, &c, NULL));
  SIM_OK(&s, capture(&s, &c, true));
  REQUIRE(c.exec != NULL);
  void *old = c.x;
  sim_free(&s, c.x);
  c.x = sim_floats(&s, "z");
  CHECK(c.x == old);
  CHECK_EQ(opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error),
           OG_INVALID);
  CHECK(strstr(s.error.text, "axpy (work 1 of the capture) reads") != NULL);
  CHECK(strstr(s.error.text, "freed after the capture: 'z' lies there now"));
  for (int i = 0; i < 2; ++i)
    SIM_OK(&s, opgraft_driver_exec_update(s.driver, c.exec, i,
                                          sim_axpy_launch(&call, c.x, c.y, 1),
                                          &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
done:
  captured_end(&s, &c);
}

// Tensor 1 of a launch is x.
static const og_slot both_x[] = {{0, 1, 0}, {1, 1, 0}};
static const og_slot late_x[] = {{1, 1, SIM_BYTES}};

// Two halves: 1 everywhere, then 100.
static void *halves(sim *s) {
  float values[SIM_FLOATS];
  void *both = NULL;
  SIM_OK(s, opgraft_driver_allocate(s->driver, 0, 2 * SIM_BYTES, "both", &both,
                                    &s->error));
  for (int i = 0; both != NULL && i < 2; ++i) {
    sim_fill(values, i == 0 ? 1 : 100);
    SIM_OK(s, sim_copy(s, 1, OPGRAFT_COPY_TO_DEVICE,
                       (char *)both + i * SIM_BYTES, values));
    SIM_OK(s, sim_wait(s, 1));
  }
  return both;
}

// Each launch adds what its tensors held when it was given; a move and an
// update follow each other in the order of the host's calls.
TEST(moves_are_of_the_launches_that_follow) {
  sim s;
  captured c;
  float values[SIM_FLOATS];
  axpy_call call;
  atomic_int flag = 0;
  void *both = NULL;
  REQUIRE(captured_begin(&s, &c, "races=1"));
  sim_fill(values, 10);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_DEVICE, c.x, values));
  SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[1], c.y, 0, SIM_BYTES,
                                &s.error));
  SIM_OK(&s, sim_wait(&s, 1));
  both = halves(&s);
  REQUIRE(both != NULL);
  SIM_OK(&s, capture(&s, &c, true));
  REQUIRE(c.exec != NULL);
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], flag_wait,
                                          &flag, &s.error));
  // 2 * 10 + 10
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_move(s.driver, c.exec, both_x, 2, both, &s.error));
  // 2 * 1 + 1
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
  SIM_OK(&s, opgraft_driver_exec_update(s.driver, c.exec, 1,
                                        sim_axpy_launch(&call, c.x, c.y, 7),
                                        &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_move(s.driver, c.exec, late_x, 1, both, &s.error));
  // 2 * 1 + 7 * 100
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_move(s.driver, c.exec, late_x, 1, both, &s.error));
  SIM_OK(&s, opgraft_driver_exec_update(s.driver, c.exec, 1,
                                        sim_axpy_launch(&call, c.x, c.y, 7),
                                        &s.error));
  SIM_OK(&s, opgraft_driver_exec_update(s.driver, c.exec, 1,
                                        sim_axpy_launch(&call, c.x, c.y, 9),
                                        &s.error));
  // 2 * 1 + 9 * 10
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
  atomic_store(&flag, 1);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_HOST, values, c.y));
  SIM_OK(&s, sim_wait(&s, 1));
  CHECK_EQ((int)values[0], 30 + 3 + 702 + 92);
  CHECK(sim_all(values, values[0]));
  CHECK_EQ(s.reports, 0);
  if (s.reports > 0) printf("%s\n", s.report);
done:
  atomic_store(&flag, 1);
  sim_free(&s, both);
  captured_end(&s, &c);
}

// It is in no allocation, so none that is freed matters to it.
TEST(a_tensor_without_elements_lies_anywhere) {
  static const og_slot slots[] = {{0, 0, 0}, {0, 1, 0}};
  sim s;
  axpy_call call;
  void *graph = NULL, *exec = NULL;
  REQUIRE(sim_open(&s, "races=1"));
  void *before = sim_floats(&s, "before");
  SIM_OK(&s, opgraft_driver_capture_begin(s.driver, s.stream[1], &s.error));
  SIM_OK(&s, opgraft_driver_launch(
                 s.driver, s.stream[1],
                 axpy_make(&call, OG_EXT_DEV, sim_axpy, 0, before, before, 1),
                 &s.error));
  SIM_OK(&s,
         opgraft_driver_capture_end(s.driver, s.stream[1], &graph, &s.error));
  SIM_OK(&s,
         opgraft_driver_graph_instantiate(s.driver, graph, &exec, &s.error));
  SIM_OK(&s, opgraft_driver_graph_destroy(s.driver, graph, &s.error));
  sim_free(&s, before);
  SIM_OK(&s, opgraft_driver_exec_launch(s.driver, exec, s.stream[1], &s.error));
  void *now = sim_floats(&s, "now");
  SIM_OK(&s, opgraft_driver_exec_move(s.driver, exec, slots, 2, now, &s.error));
  SIM_OK(&s, opgraft_driver_exec_launch(s.driver, exec, s.stream[1], &s.error));
  SIM_OK(&s, sim_wait(&s, 1));
  SIM_OK(&s, opgraft_driver_exec_destroy(s.driver, exec, &s.error));
  sim_free(&s, now);
  CHECK_EQ(s.reports, 0);
done:
  sim_close(&s);
}

// Two executables of one graph have arguments of their own.
TEST(moves_are_of_one_executable) {
  sim s;
  captured c;
  float values[SIM_FLOATS];
  void *both = NULL, *graph = NULL, *exec[2] = {NULL, NULL};
  REQUIRE(captured_begin(&s, &c, NULL));
  both = halves(&s);
  REQUIRE(both != NULL);
  SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[1], c.y, 0, SIM_BYTES,
                                &s.error));
  SIM_OK(&s, opgraft_driver_capture_begin(s.driver, s.stream[1], &s.error));
  SIM_OK(&s, sim_axpy_give(&s, 1, both, c.y, 1));
  SIM_OK(&s,
         opgraft_driver_capture_end(s.driver, s.stream[1], &graph, &s.error));
  REQUIRE(graph != NULL);
  for (int i = 0; i < 2; ++i)
    SIM_OK(&s, opgraft_driver_graph_instantiate(s.driver, graph, &exec[i],
                                                &s.error));
  SIM_OK(&s, opgraft_driver_graph_destroy(s.driver, graph, &s.error));
  REQUIRE(exec[0] != NULL && exec[1] != NULL);
  static const og_slot second[] = {{0, 1, SIM_BYTES}};
  SIM_OK(&s, opgraft_driver_exec_move(s.driver, exec[1], second, 1, both,
                                      &s.error));
  for (int i = 0; i < 2; ++i)
    SIM_OK(&s, opgraft_driver_exec_launch(s.driver, exec[i], s.stream[1],
                                          &s.error));
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_HOST, values, c.y));
  SIM_OK(&s, sim_wait(&s, 1));
  CHECK_EQ((int)values[0], 101);
done:
  for (int i = 0; i < 2; ++i)
    if (exec[i] != NULL)
      SIM_OK(&s, opgraft_driver_exec_destroy(s.driver, exec[i], &s.error));
  sim_free(&s, both);
  captured_end(&s, &c);
}

// A race of the new address is found, and one that was freed since is refused.
TEST(moves_that_are_wrong) {
  sim s;
  captured c;
  void *both = NULL;
  static const og_slot wrong[][1] = {
      {{2, 0, 0}}, {{-1, 0, 0}}, {{0, 2, 0}}, {{0, -1, 0}}};
  static const og_slot beyond[] = {{0, 1, 2 * SIM_BYTES - 4}};
  REQUIRE(captured_begin(&s, &c, "races=1"));
  both = halves(&s);
  REQUIRE(both != NULL);
  SIM_OK(&s, capture(&s, &c, true));
  REQUIRE(c.exec != NULL);
  for (int i = 0; i < 4; ++i) {
    CHECK_EQ(
        opgraft_driver_exec_move(s.driver, c.exec, wrong[i], 1, both, &s.error),
        OG_INVALID);
    CHECK(strstr(s.error.text, "the capture has no tensor") != NULL);
  }
  CHECK_EQ(
      opgraft_driver_exec_move(s.driver, c.exec, beyond, 1, both, &s.error),
      OG_INVALID);
  CHECK(strstr(s.error.text, "tensor 1 of launch 'axpy' moves to") != NULL);
  SIM_OK(&s,
         opgraft_driver_exec_move(s.driver, c.exec, both_x, 2, both, &s.error));
  SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[3], both, 0, SIM_BYTES,
                                &s.error));
  work_pass(&s, 3);
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
  CHECK(s.reports > 0 && strstr(s.report, "race") != NULL);
  SIM_OK(&s, sim_wait(&s, 1));
  SIM_OK(&s, sim_wait(&s, 3));
  sim_free(&s, both);
  both = NULL;
  CHECK_EQ(opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error),
           OG_INVALID);
  SIM_OK(&s,
         opgraft_driver_exec_move(s.driver, c.exec, both_x, 2, c.x, &s.error));
  SIM_OK(&s,
         opgraft_driver_exec_launch(s.driver, c.exec, s.stream[1], &s.error));
done:
  sim_free(&s, both);
  captured_end(&s, &c);
}

TEST(captures_that_are_wrong) {
  sim s;
  captured c;
  void *graph = NULL;
  REQUIRE(captured_begin(&s, &c, NULL));
  CHECK_EQ(capture(&s, &c, false), OG_INVALID);
  CHECK(strstr(s.error.text,
               "axpy (work 4 of the capture, stream 3) is not "
               "joined with stream 2") != NULL);
  CHECK_EQ(opgraft_driver_capture_end(s.driver, s.stream[1], &graph, &s.error),
           OG_INVALID);
  CHECK_EQ(
      opgraft_driver_event_wait(s.driver, c.event[0], s.stream[3], &s.error),
      OG_INVALID);
  CHECK(strstr(s.error.text, "in a capture that has ended") != NULL);
  sim_record(&s, c.event[0], 3);
  SIM_OK(&s, opgraft_driver_capture_begin(s.driver, s.stream[1], &s.error));
  CHECK_EQ(opgraft_driver_capture_begin(s.driver, s.stream[1], &s.error),
           OG_INVALID);
  CHECK_EQ(sim_wait(&s, 1), OG_INVALID);
  CHECK(strstr(s.error.text, "captures, so nothing runs on it") != NULL);
  CHECK_EQ(
      opgraft_driver_event_wait(s.driver, c.event[0], s.stream[1], &s.error),
      OG_INVALID);
  CHECK(strstr(s.error.text, "recorded outside") != NULL);
  CHECK_EQ(opgraft_driver_stream_destroy(s.driver, s.stream[1], &s.error),
           OG_INVALID);
  SIM_OK(&s,
         opgraft_driver_capture_end(s.driver, s.stream[1], &graph, &s.error));
  SIM_OK(&s, opgraft_driver_graph_destroy(s.driver, graph, &s.error));
done:
  captured_end(&s, &c);
}

TEST_MAIN("device_sim", CASE_NO_FAULTS(copies_in_three_directions),
          CASE_NO_FAULTS(addresses_that_are_wrong),
          CASE_NO_FAULTS(memory_runs_out_and_comes_back),
          CASE(options_that_are_wrong),
#if TEST_FORK_WITH_THREADS
          CASE_NO_FAULTS(host_access_faults_and_names_the_owner),
#endif
          CASE_NO_FAULTS(streams_are_asynchronous),
          CASE_NO_FAULTS(events_order_streams_under_any_delay),
          CASE_NO_FAULTS(an_event_stands_for_its_latest_record),
          CASE_NO_FAULTS(calls_from_many_threads),
          CASE_NO_FAULTS(a_kernel_that_fails_is_told_once),
          CASE_NO_FAULTS(an_event_tells_what_failed_before_it),
          CASE_NO_FAULTS(a_stream_that_goes_reports_what_failed),
          CASE_NO_FAULTS(a_capture_is_replayed_and_updated),
          CASE_NO_FAULTS(an_update_waits_for_no_launch),
          CASE_NO_FAULTS(moves_are_of_the_launches_that_follow),
          CASE_NO_FAULTS(a_tensor_without_elements_lies_anywhere),
          CASE_NO_FAULTS(moves_are_of_one_executable),
          CASE_NO_FAULTS(moves_that_are_wrong),
          CASE_NO_FAULTS(a_stale_address_is_found_at_the_launch),
          CASE_NO_FAULTS(captures_that_are_wrong))
