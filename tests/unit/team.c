// SPDX-License-Identifier: Apache-2.0
// The thread team: every share once, workers apart, nesting, fork, many
// callers.

#define _POSIX_C_SOURCE 200809L
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

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
          CASE_NO_FAULTS(runs_nested_loops_on_the_share_s_worker),
          CASE_NO_FAULTS(serves_several_callers),
          CASE_NO_FAULTS(works_after_fork),
          CASE_NO_FAULTS(works_after_fork_in_the_middle_of_a_loop),
          CASE(refuses_a_senseless_count))
