// SPDX-License-Identifier: Apache-2.0
// Ranges of tasks: each task is taken once, a worker's own ones in order, by
// one thread in any order of workers and by several at once.

#include "exec/fast/ranges.h"

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

enum { WORKERS_MAX = 7, TAKERS = 4, TASKS_MAX = 500, TRIALS = 300 };

static uint64_t drawn = 1;

static int64_t draw(int64_t below) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((drawn >> 33) % (uint64_t)below);
}

static og_range ranges[WORKERS_MAX];
static atomic_int seen[TASKS_MAX];

static bool all_are_seen(int64_t count) {
  for (int64_t i = 0; i < TASKS_MAX; ++i)
    if (atomic_load(&seen[i]) != (i < count)) return false;
  return true;
}

static void seen_reset(void) {
  for (int64_t i = 0; i < TASKS_MAX; ++i) atomic_store(&seen[i], 0);
}

TEST(gives_each_task_once) {
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int32_t workers = 1 + (int32_t)draw(WORKERS_MAX);
    const int64_t count = draw(TASKS_MAX + 1);
    int64_t left = count, first, n;
    seen_reset();
    og_ranges_begin(ranges, workers, count);
    while (left > 0) {
      const int64_t most = 1 + draw(9);
      n = og_ranges_take(ranges, workers, (int32_t)draw(workers), most, &first);
      if (!CHECK(n > 0 && n <= most && first >= 0 && first + n <= count))
        return;
      for (int64_t i = first; i < first + n; ++i) atomic_fetch_add(&seen[i], 1);
      left -= n;
    }
    CHECK(all_are_seen(count));
    CHECK_EQ(og_ranges_take(ranges, workers, 0, 1, &first), 0);
  }
}

// A worker that nobody steals from goes through neighbours; then it takes what
// the fullest other one would come to last.
TEST(own_tasks_come_first) {
  int64_t first;
  og_ranges_begin(ranges, 3, 30);
  for (int64_t i = 10; i < 20; i += 2) {
    CHECK_EQ(og_ranges_take(ranges, 3, 1, 2, &first), 2);
    CHECK_EQ(first, i);
  }
  CHECK_EQ(og_ranges_take(ranges, 3, 0, 4, &first), 4);
  CHECK_EQ(first, 0);
  CHECK_EQ(og_ranges_take(ranges, 3, 1, 2, &first), 2);
  CHECK_EQ(first, 28);
}

typedef struct taker {
  pthread_t thread;
  int32_t worker;
} taker;

static void *take_all(void *state) {
  const taker *t = state;
  int64_t first, count;
  while ((count = og_ranges_take(ranges, TAKERS, t->worker, 3, &first)) > 0)
    for (int64_t i = first; i < first + count; ++i)
      atomic_fetch_add(&seen[i], 1);
  return NULL;
}

TEST(several_threads_take) {
  for (int trial = 0; trial < TRIALS; ++trial) {
    const int64_t count = draw(TASKS_MAX + 1);
    taker takers[TAKERS];
    int32_t started = 0;
    seen_reset();
    og_ranges_begin(ranges, TAKERS, count);
    while (started < TAKERS) {
      taker *t = &takers[started];
      t->worker = started;
      if (!CHECK(pthread_create(&t->thread, NULL, take_all, t) == 0)) break;
      ++started;
    }
    for (int32_t i = 0; i < started; ++i) pthread_join(takers[i].thread, NULL);
    if (started > 0) CHECK(all_are_seen(count));
  }
}

TEST_MAIN("exec_ranges", CASE_NO_FAULTS(gives_each_task_once),
          CASE_NO_FAULTS(own_tasks_come_first),
          CASE_NO_FAULTS(several_threads_take))
