// SPDX-License-Identifier: Apache-2.0
// The thread team: every share once, workers apart, nesting, fork, many
// callers, processors that others use too.

#define _GNU_SOURCE
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "test.h"

enum { TOTAL = 10000, THREADS = 4 };

typedef struct tally {
  atomic_int seen[TOTAL];
  atomic_int inside[THREADS];
  atomic_int clashes;
  atomic_int shortest;
  og_team *team;
} tally;

static void count_share(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  tally *t = state;
  if (atomic_fetch_add(&t->inside[worker], 1) != 0)
    atomic_fetch_add(&t->clashes, 1);
  int shortest = atomic_load(&t->shortest);
  while (end - begin < shortest &&
         !atomic_compare_exchange_weak(&t->shortest, &shortest,
                                       (int)(end - begin)))
    continue;
  for (int64_t i = begin; i < end; ++i) atomic_fetch_add(&t->seen[i], 1);
  atomic_fetch_sub(&t->inside[worker], 1);
}

static bool all_seen(tally *t, int64_t total, int times) {
  for (int64_t i = 0; i < total; ++i)
    if (atomic_load(&t->seen[i]) != times) return false;
  return true;
}

static tally shared;

static void tally_reset(og_team *team) {
  for (int i = 0; i < TOTAL; ++i) atomic_store(&shared.seen[i], 0);
  atomic_store(&shared.clashes, 0);
  atomic_store(&shared.shortest, TOTAL);
  shared.team = team;
}

TEST(covers_the_range_once) {
  static const int64_t totals[] = {0, 1, 2, 7, 64, 1000, TOTAL};
  static const int64_t grains[] = {0, 1, 3, 16, 999, TOTAL, 3 * TOTAL};
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  CHECK_EQ(og_team_threads(team), THREADS);
  for (size_t t = 0; t < sizeof totals / sizeof *totals; ++t)
    for (size_t g = 0; g < sizeof grains / sizeof *grains; ++g) {
      tally_reset(team);
      og_team_run(team, totals[t], grains[g], count_share, &shared);
      CHECK(all_seen(&shared, totals[t], 1));
      CHECK_EQ(atomic_load(&shared.clashes), 0);
      if (totals[t] >= grains[g])
        CHECK(atomic_load(&shared.shortest) >= grains[g]);
    }
done:
  og_team_destroy(team);
}

TEST(runs_many_loops) {
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  tally_reset(team);
  for (int i = 0; i < 2000; ++i)
    og_team_run(team, 100, 1, count_share, &shared);
  CHECK(all_seen(&shared, 100, 2000));
  CHECK_EQ(atomic_load(&shared.clashes), 0);
done:
  og_team_destroy(team);
}

// Which worker took each item.
static void note_share(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  int32_t *workers = state;
  const int64_t until = og_now_ns() + 1000;
  for (int64_t i = begin; i < end; ++i) workers[i] = worker;
  while (og_now_ns() < until) continue;
}

// Of two, the caller has the first items of every loop, the worker the last.
TEST(two_threads_take_from_both_ends) {
  enum { ITEMS = 403, LOOPS = 200, PATIENCE_LOOPS = 1000000 };
  static int32_t workers[ITEMS];
  og_team *team = NULL;
  int64_t shared_loops = 0;
  REQUIRE(og_team_create(2, &team, NULL) == OG_OK);
  for (int i = 0; i < LOOPS || (shared_loops == 0 && i < PATIENCE_LOOPS); ++i) {
    og_team_run(team, ITEMS, 2, note_share, workers);
    int64_t changes = 0;
    for (int64_t k = 1; k < ITEMS; ++k) changes += workers[k] != workers[k - 1];
    CHECK(changes == 0 || (changes == 1 && workers[0] == 0));
    shared_loops += changes;
  }
  CHECK(shared_loops > 0);
done:
  og_team_destroy(team);
}

static void nested_share(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  tally *t = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    og_team_run(t->team, 100, 1, count_share, t);
}

TEST(runs_nested_loops_on_the_share_s_worker) {
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  tally_reset(team);
  og_team_run(team, 50, 1, nested_share, &shared);
  CHECK(all_seen(&shared, 100, 50));
  CHECK_EQ(atomic_load(&shared.clashes), 0);
done:
  og_team_destroy(team);
}

static void add_share(void *state, int64_t begin, int64_t end, int32_t worker) {
  (void)worker;
  atomic_fetch_add((atomic_long *)state, (long)(end - begin));
}

static void *beside(void *argument) {
  for (int i = 0; i < 500; ++i) {
    atomic_long sum = 0;
    og_team_run(argument, 1000, 1, add_share, &sum);
    if (atomic_load(&sum) != 1000) return argument;
  }
  return NULL;
}

TEST(serves_several_callers) {
  pthread_t thread[3];
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  for (int i = 0; i < 3; ++i)
    CHECK_EQ(pthread_create(&thread[i], NULL, beside, team), 0);
  for (int i = 0; i < 3; ++i) {
    void *failed = NULL;
    pthread_join(thread[i], &failed);
    CHECK(failed == NULL);
  }
done:
  og_team_destroy(team);
}

static int child_status(og_team *team) {
#if !TEST_FORK_WITH_THREADS
  (void)team;
  printf("team: fork skipped under a sanitizer\n");
  return 0;
#else
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool ok = beside(team) == NULL;
    og_team_destroy(team);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
#endif
}

TEST(works_after_fork) {
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  CHECK_EQ(child_status(team), 0);  // before its threads were started
  CHECK(beside(team) == NULL);
  CHECK_EQ(child_status(team), 0);
  CHECK(beside(team) == NULL);
done:
  og_team_destroy(team);
}

// fork() while another thread's loop is running in the parent.
TEST(works_after_fork_in_the_middle_of_a_loop) {
  pthread_t thread;
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  CHECK_EQ(pthread_create(&thread, NULL, beside, team), 0);
  for (int i = 0; i < 5; ++i) CHECK_EQ(child_status(team), 0);
  pthread_join(thread, NULL);
done:
  og_team_destroy(team);
}

// --- Late workers ------------------------------------------------------------

enum { LATE_TOTAL = 1000 };

typedef struct late {
  atomic_int calls;    // shares of workers, the caller's not counted
  atomic_int longest;  // of those
  atomic_int items;
} late;

// A worker is stopped in each of its shares, as by a scheduler, until the
// others have done all the rest.
static void late_share(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  late *l = state;
  const int size = (int)(end - begin);
  atomic_fetch_add(&l->items, size);
  if (worker == 0) {
    usleep(1000);  // so that workers come at all
    return;
  }
  atomic_fetch_add(&l->calls, 1);
  int longest = atomic_load(&l->longest);
  while (size > longest &&
         !atomic_compare_exchange_weak(&l->longest, &longest, size))
    continue;
  while (atomic_load(&l->items) < LATE_TOTAL) usleep(100);
}

TEST(a_late_worker_holds_one_small_share) {
  late l = {0};
  og_team *team = NULL;
  REQUIRE(og_team_create(2, &team, NULL) == OG_OK);
  for (int i = 0; i < 3; ++i) {
    l = (late){0};
    og_team_run(team, LATE_TOTAL, 1, late_share, &l);
    CHECK_EQ(atomic_load(&l.items), LATE_TOTAL);
    CHECK(atomic_load(&l.calls) <= 1);
    CHECK(atomic_load(&l.longest) <= LATE_TOTAL / 4);
  }
done:
  og_team_destroy(team);
}

typedef struct env_check {
  og_float_env wanted;
  atomic_int differs;
} env_check;

static void env_share(void *state, int64_t begin, int64_t end, int32_t worker) {
  env_check *c = state;
  (void)begin, (void)end, (void)worker;
  if (og_float_env_get() != c->wanted) atomic_fetch_add(&c->differs, 1);
  usleep(100);
}

TEST(workers_have_the_caller_s_float_environment) {
  og_team *team = NULL;
  const og_float_env own = og_float_env_get();
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  for (int i = 0; i < 4; ++i) {
    env_check c = {.wanted = own};
#if defined(__SSE__)
    if (i % 2 == 1) c.wanted |= _MM_FLUSH_ZERO_ON;
#endif
    og_float_env_set(c.wanted);
    og_team_run(team, 64, 1, env_share, &c);
    og_float_env_set(own);
    CHECK_EQ(atomic_load(&c.differs), 0);
  }
done:
  og_team_destroy(team);
}

// --- A processor that another process uses too -------------------------------

enum {
  LOOPS = 80,   // of a replay
  ITEMS = 64,   // of a loop
  ROUNDS = 25,  // replays of a median
  ATTEMPTS = 5,
  QUIET_PERCENT = 180  // a team that waits for time slices needs 200
};

static void burn(int64_t count) {
  volatile double sink = 1;
  double x = sink;
  for (int64_t i = 0; i < count; ++i) x = x * 1.0000001 + 1e-9;
  sink = x;
}

static void burn_share(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  (void)worker;
  burn((end - begin) * *(const int64_t *)state);
}

static int compare_times(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t median_replay_ns(og_team *team, int64_t item) {
  int64_t times[ROUNDS];
  for (int i = -2; i < ROUNDS; ++i) {
    const int64_t begun = og_now_ns();
    for (int k = 0; k < LOOPS; ++k)
      og_team_run(team, ITEMS, 1, burn_share, &item);
    if (i >= 0) times[i] = og_now_ns() - begun;
  }
  qsort(times, ROUNDS, sizeof *times, compare_times);
  return times[ROUNDS / 2];
}

// A processor of this process, not the first; -1 where there is one alone.
static int second_processor(void) {
  cpu_set_t set;
  int found = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set) && ++found == 2) return (int)i;
  return -1;
}

static pid_t processor_take(int processor) {
  const pid_t child = fork();
  if (child != 0) return child;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)processor, &set);
  alarm(60);
  if (sched_setaffinity(0, sizeof set, &set) != 0) _exit(1);
  for (;;) burn(1000);
}

// Two workers, and one of their processors has a busy loop: what is left is
// one processor and a half, 1.33 times the quiet time.
TEST(a_taken_processor_does_not_double_the_time) {
  og_team *team = NULL;
  const int processor = second_processor();
  const char *timing = getenv("OPGRAFT_TIMING");
  const bool is_timed = timing != NULL && timing[0] != '\0';
  REQUIRE(og_team_create(2, &team, NULL) == OG_OK);
  if (!TEST_FORK_WITH_THREADS || processor < 0 || !is_timed) {
    printf("team: a taken processor skipped (%s)\n",
           processor < 0             ? "there is only one"
           : !TEST_FORK_WITH_THREADS ? "under a sanitizer"
                                     : "OPGRAFT_TIMING is not set");
    goto done;
  }
  int64_t least = INT64_MAX;
  for (int i = 0; i < ATTEMPTS && least > QUIET_PERCENT; ++i) {
    const int64_t quiet = median_replay_ns(team, 2000);
    const pid_t child = processor_take(processor);
    usleep(20000);
    const int64_t taken = median_replay_ns(team, 2000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (taken * 100 / quiet < least) least = taken * 100 / quiet;
  }
  printf("team: a taken processor makes it %.2f times the quiet time\n",
         (double)least / 100);
  CHECK(least <= QUIET_PERCENT);
done:
  og_team_destroy(team);
}

// --- Loops that are known to be short ----------------------------------------

enum { SHORT_LOOPS = 100, SHORT_NS = 1000, LONG_NS = 100000000 };

// Times that threads other than the caller went to sleep.
static int64_t workers_sleeps(void) {
  struct rusage all, own;
  if (getrusage(RUSAGE_SELF, &all) != 0 || getrusage(RUSAGE_THREAD, &own) != 0)
    return -1;
  return all.ru_nvcsw - own.ru_nvcsw;
}

static void wait_share(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const int64_t until = og_now_ns() + (end - begin) * 100;
  atomic_fetch_or((atomic_int *)state, 1 << worker);
  while (og_now_ns() < until) continue;
}

// Which workers ran shares of short loops with a pause before each, in bits.
static int short_loops(og_team *team, int64_t expected_ns, unsigned pause_us) {
  atomic_int who = 0;
  for (int i = 0; i < SHORT_LOOPS; ++i) {
    if (pause_us > 0) usleep(pause_us);
    og_team_run_expected(team, expected_ns, 8, 1, wait_share, &who);
  }
  return atomic_load(&who);
}

TEST(short_loops_wake_nobody) {
  og_team *team = NULL;
  REQUIRE(og_team_create(THREADS, &team, NULL) == OG_OK);
  CHECK_EQ(short_loops(team, SHORT_NS, 1000), 1);  // not even started
  atomic_int who = 0;
  og_team_run(team, 4000, 1, wait_share, &who);
  usleep(20000);
  const int64_t before = workers_sleeps();
  CHECK_EQ(short_loops(team, SHORT_NS, 1000), 1);
  CHECK(workers_sleeps() - before < SHORT_LOOPS / 2);
  short_loops(team, 0, 1000);  // of which nothing is known
  CHECK(workers_sleeps() - before >= SHORT_LOOPS);
done:
  og_team_destroy(team);
}

// One after the other they are as good as a long one, and so is a loop that is
// expected to be long.
TEST(short_loops_without_a_pause_wake_the_workers) {
  enum { PATIENCE = 1000 };
  og_team *team = NULL;
  REQUIRE(og_team_create(2, &team, NULL) == OG_OK);
  for (int k = 0; k < 2; ++k) {
    int who = 0;
    for (int i = 0; i < PATIENCE && who != 3; ++i)
      who |= short_loops(team, k == 0 ? SHORT_NS : LONG_NS, 0);
    CHECK_EQ(who, 3);
  }
done:
  og_team_destroy(team);
}

TEST(refuses_a_senseless_count) {
  og_team *team = NULL;
  opgraft_error error;
  CHECK_EQ(og_team_create(-1, &team, &error), OG_INVALID);
  CHECK(team == NULL);
  REQUIRE(og_team_create(0, &team, NULL) == OG_OK);
  CHECK(og_team_threads(team) >= 1);
done:
  og_team_destroy(team);
}

TEST_MAIN("team", CASE_NO_FAULTS(covers_the_range_once),
          CASE_NO_FAULTS(runs_many_loops),
          CASE_NO_FAULTS(two_threads_take_from_both_ends),
          CASE_NO_FAULTS(runs_nested_loops_on_the_share_s_worker),
          CASE_NO_FAULTS(serves_several_callers),
          CASE_NO_FAULTS(works_after_fork),
          CASE_NO_FAULTS(works_after_fork_in_the_middle_of_a_loop),
          CASE_NO_FAULTS(a_late_worker_holds_one_small_share),
          CASE_NO_FAULTS(workers_have_the_caller_s_float_environment),
          CASE_NO_FAULTS(a_taken_processor_does_not_double_the_time),
          CASE_NO_FAULTS(short_loops_wake_nobody),
          CASE_NO_FAULTS(short_loops_without_a_pause_wake_the_workers),
          CASE(refuses_a_senseless_count))
