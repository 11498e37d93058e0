// SPDX-License-Identifier: Apache-2.0
// Races, on a clock of the test's own: the fastest wins whatever disturbs it,
// equal ones keep their order, time is bounded.

#include "exec/choose/race.h"

#include "base/clock.h"
#include "unit/test.h"

static int64_t now_ns;
int64_t og_now_ns(void) { return now_ns; }

enum { RACERS = 3 };

typedef struct lane {
  int64_t takes_ns;
  const int64_t *disturbed;  // by run: what is added; ended by -1; may be NULL
  int32_t runs;
  int32_t fails_at;  // the run that fails; 0: none
} lane;

static og_status lane_run(void *state) {
  lane *l = state;
  now_ns += l->takes_ns;
  if (l->disturbed != NULL && *l->disturbed >= 0) now_ns += *l->disturbed++;
  return ++l->runs == l->fails_at ? OG_KERNEL : OG_OK;
}

static int32_t race(lane *lanes, int32_t count, int64_t most_ns, og_race *out) {
  og_racer racers[RACERS] = {{0}};
  for (int32_t i = 0; i < count; ++i)
    racers[i] = (og_racer){.run = lane_run, .state = &lanes[i]};
  *out = (og_race){.racers = racers, .count = count, .most_ns = most_ns};
  return og_race_run(out);
}

enum { MUCH = 1000000000 };

TEST(the_fastest_wins) {
  og_race r;
  lane lanes[] = {{.takes_ns = 3000}, {.takes_ns = 1000}, {.takes_ns = 2000}};
  CHECK_EQ(race(lanes, 3, MUCH, &r), 1);
  // What is clearly behind is not run to the end.
  CHECK_EQ(lanes[0].runs, 1 + OG_RACE_ROUNDS_LEAST);
  CHECK_EQ(lanes[1].runs, 1 + OG_RACE_ROUNDS_LEAST);
}

// The first run packs; noise only adds.
TEST(disturbed_runs_do_not_count) {
  static const int64_t first[] = {90000, 0, -1};
  static const int64_t most[] = {5000, 0, 9000, 9000, 0, -1};
  og_race r;
  lane lanes[] = {{.takes_ns = 1200, .disturbed = first},
                  {.takes_ns = 1000, .disturbed = most}};
  CHECK_EQ(race(lanes, 2, MUCH, &r), 1);
  CHECK_EQ(r.count, 2);
  // Those that are close run to the end.
  lane close[] = {{.takes_ns = 1100}, {.takes_ns = 1000}};
  CHECK_EQ(race(close, 2, MUCH, &r), 1);
  CHECK_EQ(close[0].runs, 1 + OG_RACE_ROUNDS);
}

static int64_t taken;  // processors

static og_status lane_run_taken(void *state) {
  lane *l = state;
  // Every other run is disturbed, and would look like the fastest.
  taken += l->runs % 2;
  now_ns += l->runs % 2 == 1 ? 1 : l->takes_ns;
  ++l->runs;
  return OG_OK;
}

static og_status lane_run_long_taken(void *state) {
  ++taken;
  return lane_run(state);
}

static int64_t taken_get(void *context) {
  (void)context;
  return taken;
}

TEST(a_run_that_lost_its_processor_does_not_count) {
  lane lanes[] = {{.takes_ns = 2000}, {.takes_ns = 1000}};
  og_racer racers[2] = {{.run = lane_run_taken, .state = &lanes[0]},
                        {.run = lane_run_taken, .state = &lanes[1]}};
  og_race r = {
      .racers = racers, .count = 2, .most_ns = MUCH, .disturbances = taken_get};
  CHECK_EQ(og_race_run(&r), 1);
  CHECK_EQ(racers[0].best_ns, 2000);
  CHECK_EQ(racers[1].best_ns, 1000);
}

// Long runs are few, counted even if they lost a processor, and one look is
// enough at what takes twice as long.
TEST(long_runs_are_few) {
  og_race r;
  lane lanes[] = {{.takes_ns = 2 * OG_RACE_ENOUGH_NS},
                  {.takes_ns = 5 * OG_RACE_ENOUGH_NS},
                  {.takes_ns = 3 * OG_RACE_ENOUGH_NS}};
  CHECK_EQ(race(lanes, 3, MUCH, &r), 0);
  CHECK_EQ(lanes[0].runs, 3);
  CHECK_EQ(lanes[1].runs, 2);
  CHECK_EQ(lanes[2].runs, 3);
  // A run that was only disturbed gets another.
  static const int64_t most[] = {0, 5 * OG_RACE_ENOUGH_NS, 0, 0, -1};
  lane disturbed[] = {{.takes_ns = 2 * OG_RACE_ENOUGH_NS},
                      {.takes_ns = OG_RACE_ENOUGH_NS, .disturbed = most}};
  CHECK_EQ(race(disturbed, 2, MUCH, &r), 1);
  lane taken_lanes[] = {{.takes_ns = OG_RACE_ENOUGH_NS}};
  og_racer racers[] = {{.run = lane_run_long_taken, .state = taken_lanes}};
  r = (og_race){
      .racers = racers, .count = 1, .most_ns = MUCH, .disturbances = taken_get};
  CHECK_EQ(og_race_run(&r), 0);
}

// Equal times do not replace the preferred one.
TEST(a_tie_keeps_the_order) {
  og_race r;
  lane lanes[] = {{.takes_ns = 1000}, {.takes_ns = 990}, {.takes_ns = 980}};
  CHECK_EQ(race(lanes, 3, MUCH, &r), 0);
  lane won[] = {{.takes_ns = 1000}, {.takes_ns = 900}};
  CHECK_EQ(race(won, 2, MUCH, &r), 1);
}

TEST(time_is_bounded) {
  og_race r;
  lane lanes[] = {{.takes_ns = 1000}, {.takes_ns = 1000}};
  CHECK_EQ(race(lanes, 2, 1500, &r), -1);
  CHECK(r.spent_ns <= 2500);
  lane enough[] = {{.takes_ns = 1000}, {.takes_ns = 500}};
  CHECK_EQ(race(enough, 2, 4400, &r), 1);
  CHECK(r.spent_ns <= 5400);
}

// Times that never agree decide nothing, and the race ends all the same.
TEST(a_busy_machine_decides_nothing) {
  int64_t all[2][OG_RACE_ROUNDS_MOST + 2];
  int64_t longer = 1000;  // each a fifth more than the last
  for (int32_t i = 0; i <= OG_RACE_ROUNDS_MOST; ++i, longer += longer / 5)
    all[0][i] = all[1][i] = longer;
  all[0][OG_RACE_ROUNDS_MOST + 1] = all[1][OG_RACE_ROUNDS_MOST + 1] = -1;
  og_race r;
  lane lanes[] = {{.takes_ns = 1, .disturbed = all[0]},
                  {.takes_ns = 1, .disturbed = all[1]}};
  CHECK_EQ(race(lanes, 2, INT64_MAX, &r), -1);
  CHECK_EQ(lanes[0].runs, 1 + OG_RACE_ROUNDS_MOST);
  lane bounded[] = {{.takes_ns = 1, .disturbed = all[0]},
                    {.takes_ns = 1, .disturbed = all[1]}};
  CHECK_EQ(race(bounded, 2, 100000, &r), -1);
  CHECK(bounded[0].runs < 20);
}

TEST(one_that_fails_is_out) {
  og_race r;
  lane lanes[] = {{.takes_ns = 10, .fails_at = 1}, {.takes_ns = 1000}};
  CHECK_EQ(race(lanes, 2, MUCH, &r), 1);
  lane late[] = {{.takes_ns = 10, .fails_at = 3}, {.takes_ns = 1000}};
  CHECK_EQ(race(late, 2, MUCH, &r), 1);
  lane all[] = {{.takes_ns = 10, .fails_at = 1},
                {.takes_ns = 9, .fails_at = 1}};
  CHECK_EQ(race(all, 2, MUCH, &r), -1);
}

TEST_MAIN("exec_race", CASE(the_fastest_wins),
          CASE(disturbed_runs_do_not_count),
          CASE(a_run_that_lost_its_processor_does_not_count),
          CASE(long_runs_are_few), CASE(a_tie_keeps_the_order),
          CASE(time_is_bounded), CASE(a_busy_machine_decides_nothing),
          CASE(one_that_fails_is_out))
