// SPDX-License-Identifier: Apache-2.0
// Many threads on one module, and threads that load and unload it meanwhile.
// Runs under ThreadSanitizer as well.

#include <opgraft/opgraft.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

enum { THREADS = 4, WIDTH = 96, CALLS = 150, LOADS = 25 };

static void module_path(char *out, size_t size) {
  snprintf(out, size, "%s/check_right.so", TEST_MODULE_DIR);
}

// One call of `op` on x[WIDTH] into y; the caller's memory, the team's threads.
static og_status call(const opgraft_op *op, opgraft_team *team, float *x,
                      float *y, int64_t *out_count) {
  int64_t shape[] = {WIDTH}, strides[] = {1};
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  opgraft_error error;
  opgraft_frame frame;
  opgraft_frame_init(&frame, op);
  if (team != NULL) opgraft_frame_set_team(&frame, team);
  frame.in[0] = &tensor;
  og_status status = opgraft_frame_infer(&frame, &error);
  if (status == OG_OK) {
    frame.fresh[0].data = y;
    status = opgraft_frame_run(&frame, &error);
    *out_count = og_numel(&frame.fresh[0]);
  }
  if (status != OG_OK) printf("%s\n", error.text);
  opgraft_frame_reset(&frame);
  return status;
}

// A sum and the places of what is positive, against a plain loop.
static bool gives_right(const opgraft_module *module, opgraft_team *team,
                        int32_t seed) {
  float x[WIDTH], sum[1];
  int64_t places[WIDTH], count = 0, wanted = 0;
  float total = 0;
  for (int32_t i = 0; i < WIDTH; ++i) {
    x[i] = (float)((i * 7 + seed * 13) % 11 - 5);
    total += x[i];
    wanted += x[i] > 0;
  }
  const opgraft_op *positive = opgraft_module_find_op(module, "positive");
  return call(opgraft_module_find_op(module, "sum"), team, x, sum, &count) ==
             OG_OK &&
         sum[0] == total &&
         call(positive, NULL, x, (float *)(void *)places, &count) == OG_OK &&
         count == wanted;
}

typedef struct caller {
  opgraft_module *module;
  opgraft_team *team;
  int32_t seed;
  atomic_int *wrong;
} caller;

static void *call_often(void *argument) {
  caller *c = argument;
  for (int32_t i = 0; i < CALLS; ++i)
    if (!gives_right(c->module, c->team, c->seed + i))
      atomic_fetch_add(c->wrong, 1);
  opgraft_module_release(c->module);
  return NULL;
}

TEST(one_module_serves_many_threads) {
  pthread_t thread[THREADS];
  caller callers[THREADS];
  atomic_int wrong = 0;
  int32_t started = 0;
  opgraft_module *module = NULL;
  opgraft_team *team = NULL;
  opgraft_error error;
  char path[512];
  module_path(path, sizeof path);
  REQUIRE(opgraft_module_load(path, &module, &error) == OG_OK);
  REQUIRE(opgraft_team_create(THREADS, &team, &error) == OG_OK);
  for (; started < THREADS; ++started) {
    callers[started] = (caller){module, team, started, &wrong};
    opgraft_module_retain(module);
    REQUIRE(pthread_create(&thread[started], NULL, call_often,
                           &callers[started]) == 0);
  }
  // A reference of each thread's own, until it is done.
  CHECK(opgraft_module_op_count(module) > 0);
done:
  for (int32_t i = 0; i < started; ++i) pthread_join(thread[i], NULL);
  CHECK_EQ(atomic_load(&wrong), 0);
  opgraft_team_destroy(team);
  if (module != NULL) CHECK(opgraft_module_unload(module, &error) == OG_OK);
}

// Whoever comes last takes the module down; whoever comes next loads it anew.
static void *load_often(void *argument) {
  atomic_int *wrong = argument;
  char path[512];
  module_path(path, sizeof path);
  for (int32_t i = 0; i < LOADS; ++i) {
    opgraft_module *module = NULL;
    opgraft_error error;
    if (opgraft_module_load(path, &module, &error) != OG_OK) {
      printf("%s\n", error.text);
      atomic_fetch_add(wrong, 1);
      continue;
    }
    if (!gives_right(module, NULL, i)) atomic_fetch_add(wrong, 1);
    const og_status status = opgraft_module_unload(module, &error);
    if (status == OG_BUSY)
      opgraft_module_release(module);
    else if (status != OG_OK)
      atomic_fetch_add(wrong, 1);
  }
  return NULL;
}

TEST(threads_load_and_unload_at_once) {
  pthread_t thread[THREADS];
  atomic_int wrong = 0;
  int32_t started = 0;
  while (started < THREADS &&
         pthread_create(&thread[started], NULL, load_often, &wrong) == 0)
    ++started;
  CHECK_EQ(started, THREADS);
  for (int32_t i = 0; i < started; ++i) pthread_join(thread[i], NULL);
  CHECK_EQ(atomic_load(&wrong), 0);
}

TEST(unload_waits_for_whoever_calls) {
  pthread_t thread;
  atomic_int wrong = 0;
  opgraft_module *module = NULL;
  opgraft_error error;
  char path[512];
  module_path(path, sizeof path);
  REQUIRE(opgraft_module_load(path, &module, &error) == OG_OK);
  caller c = {module, NULL, 3, &wrong};
  opgraft_module_retain(module);
  CHECK_EQ(opgraft_module_unload(module, &error), OG_BUSY);
  REQUIRE(pthread_create(&thread, NULL, call_often, &c) == 0);
  pthread_join(thread, NULL);
  CHECK_EQ(atomic_load(&wrong), 0);
  CHECK_EQ(opgraft_module_unload(module, &error), OG_OK);
  module = NULL;
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("threads_module", CASE_NO_FAULTS(one_module_serves_many_threads),
          CASE_NO_FAULTS(threads_load_and_unload_at_once),
          CASE_NO_FAULTS(unload_waits_for_whoever_calls))
