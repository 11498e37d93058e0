// SPDX-License-Identifier: Apache-2.0
// A stream of the simulated NPU that gets much work, from several threads and
// of several sizes: each is done once, in order, as it was given.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "device_sim.h"

// --- One stream, several threads ---------------------------------------------

enum { THREADS = 3, LAUNCHES = 400 };

typedef struct giver {
  sim *s;
  void *x, *y;  // y is its own
  bool is_right;
} giver;

// y is the number of the launch before, of the same thread.
static og_status step(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  if (y[0] + 1 != (float)call->attr[0].f)
    return og_fail(call, OG_KERNEL, "a launch is missing, or comes twice");
  y[0] += 1;
  return OG_OK;
}

// The stream's thread sleeps after some of the pauses, and the giver waits for
// the stream now and then.
static void *giver_run(void *user) {
  giver *g = user;
  opgraft_error error;
  g->is_right = true;
  for (int i = 1; g->is_right && i <= LAUNCHES; ++i) {
    axpy_call c;
    const og_launch *launch =
        axpy_make(&c, OG_EXT_DEV, step, SIM_FLOATS, g->x, g->y, i);
    g->is_right = opgraft_driver_launch(g->s->driver, g->s->stream[1], launch,
                                        &error) == OG_OK;
    if (g->is_right && i % 16 == 0)
      g->is_right = opgraft_driver_stream_synchronize(
                        g->s->driver, g->s->stream[1], -1, &error) == OG_OK;
    if (i % 50 == 0) usleep(300);
  }
  return NULL;
}

static void threads_share(const char *options) {
  sim s;
  pthread_t threads[THREADS];
  giver givers[THREADS];
  float values[SIM_FLOATS];
  REQUIRE(sim_open(&s, options));
  void *x = sim_floats(&s, "x");
  SIM_OK(&s,
         opgraft_driver_set(s.driver, s.stream[1], x, 0, SIM_BYTES, &s.error));
  for (int i = 0; i < THREADS; ++i) {
    givers[i] = (giver){.s = &s, .x = x, .y = sim_floats(&s, "y")};
    SIM_OK(&s, opgraft_driver_set(s.driver, s.stream[1], givers[i].y, 0,
                                  SIM_BYTES, &s.error));
  }
  for (int i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, giver_run, &givers[i]) != 0) abort();
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(givers[i].is_right);
  }
  for (int i = 0; i < THREADS; ++i) {
    SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_HOST, values, givers[i].y));
    SIM_OK(&s, sim_wait(&s, 1));
    CHECK_EQ((int)values[0], LAUNCHES);
    sim_free(&s, givers[i].y);
  }
  sim_free(&s, x);
  CHECK_EQ(s.reports, 0);
done:
  sim_close(&s);
}

TEST(threads_share_a_stream) { threads_share(""); }

TEST(threads_share_a_stream_that_is_watched) {
  threads_share("races=1,delay_us=20");
}

// --- One queue, many works ---------------------------------------------------

enum { WORKS = 600, RANK = 5, WORDS = 40 };

// A launch that is much larger than axpy's, of each kind of argument. Its
// tensors lie at `x`, `y` and `x` again; the number is in all else.
typedef struct large_call {
  int64_t shape[RANK], strides[RANK], dims[3], ints[WORDS];
  double floats[WORDS];
  char text[32], other[32];
  const char *strings[2];
  og_tensor x, y;
  og_tensor *listed[3];
  const og_tensor *in[2];
  og_tensor *out[1];
  og_tensor_list in_list[2], out_list[1];
  og_attr attrs[5];
  og_call call;
  og_launch launch;
} large_call;

static bool is_large(const og_call *call) {
  const int64_t number = call->dim[2];
  const og_tensor_list *list = &call->in_list[0];
  const og_attr *attrs = call->attr;
  char text[32];
  bool is_right = call->in[0] == NULL && list->count == 3 &&
                  list->tensors[1] == NULL && call->in[1]->ndim == RANK &&
                  call->out[0]->ndim == RANK &&
                  list->tensors[0]->data == call->in[1]->data &&
                  list->tensors[2]->data == call->out[0]->data;
  for (int d = 0; is_right && d < RANK; ++d)
    is_right = call->in[1]->shape[d] == (d == 0 ? SIM_FLOATS : 1) &&
               list->tensors[2]->strides[d] == 1;
  for (int i = 0; is_right && i < WORDS; ++i)
    is_right = attrs[0].ints[i] == number + i &&
               attrs[1].floats[i] == (double)(number - i);
  snprintf(text, sizeof text, "text %d", (int)number);
  return is_right && strcmp(attrs[2].s, text) == 0 &&
         strcmp(attrs[3].strs[0], text) == 0 &&
         strcmp(attrs[3].strs[1], "other") == 0 && attrs[4].i == number;
}

static og_status step_large(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  if (!is_large(call) || y[0] + 1 != (float)call->dim[2])
    return og_fail(call, OG_KERNEL, "a launch is not as it was given");
  y[0] += 1;
  return OG_OK;
}

static og_tensor large_tensor(large_call *c, void *data) {
  return (og_tensor){.data = data,
                     .device = {OG_EXT_DEV, 0},
                     .ndim = RANK,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = c->shape,
                     .strides = c->strides};
}

static void large_attrs(large_call *c, int number) {
  for (int i = 0; i < WORDS; ++i) {
    c->ints[i] = number + i;
    c->floats[i] = number - i;
  }
  snprintf(c->text, sizeof c->text, "text %d", number);
  snprintf(c->other, sizeof c->other, "other");
  c->strings[0] = c->text;
  c->strings[1] = c->other;
  c->attrs[0] =
      (og_attr){.kind = OG_ATTR_INTS, .count = WORDS, .ints = c->ints};
  c->attrs[1] =
      (og_attr){.kind = OG_ATTR_FLOATS, .count = WORDS, .floats = c->floats};
  c->attrs[2] = (og_attr){
      .kind = OG_ATTR_STR, .count = (int64_t)strlen(c->text), .s = c->text};
  c->attrs[3] = (og_attr){.kind = OG_ATTR_STRS, .count = 2, .strs = c->strings};
  c->attrs[4] = (og_attr){.kind = OG_ATTR_INT, .i = number};
}

static const og_launch *large_make(large_call *c, void *x, void *y,
                                   int number) {
  *c = (large_call){.shape = {SIM_FLOATS, 1, 1, 1, 1},
                    .strides = {1, 1, 1, 1, 1},
                    .dims = {1, 2, number}};
  c->x = large_tensor(c, x);
  c->y = large_tensor(c, y);
  c->listed[0] = &c->x;
  c->listed[2] = &c->y;
  c->in[1] = &c->x;
  c->out[0] = &c->y;
  c->in_list[0] = (og_tensor_list){3, c->listed};
  large_attrs(c, number);
  c->call = (og_call){.struct_size = sizeof c->call,
                      .in = c->in,
                      .out = c->out,
                      .in_list = c->in_list,
                      .out_list = c->out_list,
                      .attr = c->attrs,
                      .dim = c->dims,
                      .threads = 1};
  c->launch = (og_launch){.struct_size = sizeof c->launch,
                          .name = "large",
                          .run = step_large,
                          .call = &c->call,
                          .in_count = 2,
                          .out_count = 1,
                          .attr_count = 5,
                          .dim_count = 3};
  return &c->launch;
}

static void flag_wait(void *user) {
  while (!atomic_load((atomic_int *)user)) usleep(100);
}

// Each third one is large, so a block is used again by a launch of another
// size; what the host had of the launch is gone when it is done.
static void works_give(sim *s, void *x, void *y, int *number, int count) {
  for (int i = 0; i < count; ++i) {
    axpy_call small;
    large_call large;
    ++*number;
    SIM_OK(s, opgraft_driver_launch(s->driver, s->stream[1],
                                    *number % 3 == 0
                                        ? large_make(&large, x, y, *number)
                                        : axpy_make(&small, OG_EXT_DEV, step,
                                                    SIM_FLOATS, x, y, *number),
                                    &s->error));
    memset(&small, 0xa5, sizeof small);
    memset(&large, 0xa5, sizeof large);
  }
}

static void works_wait(const char *options) {
  sim s;
  atomic_int flag = 0;
  int number = 0;
  float values[SIM_FLOATS];
  REQUIRE(sim_open(&s, options));
  void *x = sim_floats(&s, "x"), *y = sim_floats(&s, "y");
  SIM_OK(&s,
         opgraft_driver_set(s.driver, s.stream[1], x, 0, SIM_BYTES, &s.error));
  SIM_OK(&s,
         opgraft_driver_set(s.driver, s.stream[1], y, 0, SIM_BYTES, &s.error));
  works_give(&s, x, y, &number, 50);
  SIM_OK(&s, opgraft_driver_host_function(s.driver, s.stream[1], flag_wait,
                                          &flag, &s.error));
  works_give(&s, x, y, &number, WORKS);
  CHECK_EQ(
      opgraft_driver_stream_synchronize(s.driver, s.stream[1], 0, &s.error),
      OG_BUSY);
  atomic_store(&flag, 1);
  SIM_OK(&s, sim_wait(&s, 1));
  works_give(&s, x, y, &number, WORKS);
  SIM_OK(&s, sim_copy(&s, 1, OPGRAFT_COPY_TO_HOST, values, y));
  SIM_OK(&s, sim_wait(&s, 1));
  CHECK_EQ((int)values[0], 50 + 2 * WORKS);
  sim_free(&s, x);
  sim_free(&s, y);
  CHECK_EQ(s.reports, 0);
done:
  atomic_store(&flag, 1);
  sim_close(&s);
}

TEST(works_wait_behind_one_that_is_slow) { works_wait(""); }

TEST(works_wait_and_are_watched) { works_wait("races=1"); }

TEST_MAIN("device_queue", CASE_NO_FAULTS(threads_share_a_stream),
          CASE_NO_FAULTS(threads_share_a_stream_that_is_watched),
          CASE_NO_FAULTS(works_wait_behind_one_that_is_slow),
          CASE_NO_FAULTS(works_wait_and_are_watched))
