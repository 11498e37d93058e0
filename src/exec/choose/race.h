// SPDX-License-Identifier: Apache-2.0
// A race: which of a few candidates is the fastest, by the clock.
//
// Candidates run in turn, so that what slows the machine down slows all of
// them; of each the least time counts, since noise only adds, once another run
// came near it. One that is clearly behind drops out, and the race ends when
// one is clearly ahead. On a machine that is too busy to tell nobody wins.

#ifndef OG_EXEC_CHOOSE_RACE_H
#define OG_EXEC_CHOOSE_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
  OG_RACE_ROUNDS = 12,
  // Of one racer's runs, after which two that agree are enough: a long run
  // evens out what disturbs it.
  OG_RACE_ENOUGH_NS = 20000000,
  OG_RACE_LONG_NS = 1000000,  // one that takes twice as long drops out at once
  OG_RACE_ROUNDS_MOST = 60,   // where times are not steady
  OG_RACE_ROUNDS_LEAST = 3,   // before one drops out
  OG_RACE_BEHIND = 8,         // an eighth slower drops out
  OG_RACE_TIE = 32,           // a lead of a 32nd or less is a tie
};

typedef struct og_racer {
  og_status (*run)(void *state);
  void *state;
  int64_t best_ns;   // the least; 0: no run has ended
  int64_t next_ns;   // the least but one
  int64_t first_ns;  // of the run that is not timed
  bool is_out;       // dropped out, or failed
} og_racer;

typedef struct og_race {
  og_racer *racers;  // preferred ones first: they win where times are equal
  int32_t count;
  int64_t most_ns;   // for all of it
  int64_t spent_ns;  // out
  // Called before each run that is timed, outside of its time; may be NULL.
  void (*before)(void *context);
  // Counts what disturbs a run, as the system's taking a processor away. A run
  // during which it grew does not count, unless it took OG_RACE_ENOUGH_NS: as
  // good as every run so long is disturbed. May be NULL.
  int64_t (*disturbances)(void *context);
  void *context;
} og_race;

// The winner's index; -1 where none ran through, or time was up before all that
// are left had steady times.
int32_t og_race_run(og_race *race);

#endif  // OG_EXEC_CHOOSE_RACE_H
