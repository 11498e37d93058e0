// SPDX-License-Identifier: Apache-2.0
// A race: which of a few candidates is the fastest, by the clock.

#include "exec/choose/race.h"

#include "base/clock.h"

static void time_note(og_racer *racer, int64_t ns) {
  if (racer->best_ns == 0 || ns < racer->best_ns) {
    racer->next_ns = racer->best_ns;
    racer->best_ns = ns;
  } else if (racer->next_ns == 0 || ns < racer->next_ns) {
    racer->next_ns = ns;
  }
}

static int64_t disturbances(const og_race *race) {
  return race->disturbances != NULL ? race->disturbances(race->context) : 0;
}

// One that fails is out. `is_timed`: the first run of each is not, since it
// makes what later ones find (packed weights, caches, pages).
static void racer_run(og_race *race, og_racer *racer, bool is_timed) {
  if (is_timed && race->before != NULL) race->before(race->context);
  const int64_t disturbed = disturbances(race);
  const int64_t begun = og_now_ns();
  const bool is_done = racer->run(racer->state) == OG_OK;
  const int64_t ns = og_now_ns() - begun;
  if (!is_done) {
    racer->is_out = true;
    racer->best_ns = 0;
  } else if (!is_timed) {
    racer->first_ns = ns;
  } else if (ns >= OG_RACE_ENOUGH_NS || disturbances(race) == disturbed) {
    time_note(racer, ns > 0 ? ns : 1);
  }
}

// Whether two runs agree on the least time.
static bool is_steady(const og_racer *racer) {
  return racer->next_ns > 0 &&
         racer->next_ns <= racer->best_ns + racer->best_ns / OG_RACE_BEHIND;
}

static bool are_steady(const og_race *race) {
  bool are = true;
  for (int32_t i = 0; i < race->count; ++i)
    are &= race->racers[i].is_out || is_steady(&race->racers[i]);
  return are;
}

static int64_t least_ns(const og_race *race) {
  int64_t least = 0;
  for (int32_t i = 0; i < race->count; ++i) {
    const int64_t ns = race->racers[i].best_ns;
    if (ns > 0 && (least == 0 || ns < least)) least = ns;
  }
  return least;
}

static bool is_enough(const og_race *race, int32_t round) {
  return round >= OG_RACE_ROUNDS ||
         (round > 1 && round * least_ns(race) >= OG_RACE_ENOUGH_NS);
}

// Too slow by so much that no second run can tell otherwise.
static bool is_hopeless(const og_racer *racer, int64_t least) {
  return least >= OG_RACE_LONG_NS && racer->best_ns > 2 * least &&
         racer->first_ns > 2 * least;
}

static int32_t drop_out(og_race *race, int32_t round) {
  const int64_t least = least_ns(race);
  const bool may_drop = round >= OG_RACE_ROUNDS_LEAST || is_enough(race, round);
  int32_t left = 0;
  for (int32_t i = 0; i < race->count; ++i) {
    og_racer *racer = &race->racers[i];
    racer->is_out |= is_hopeless(racer, least) ||
                     (may_drop && is_steady(racer) &&
                      racer->best_ns > least + least / OG_RACE_BEHIND);
    left += !racer->is_out;
  }
  return left;
}

// False where time is up.
static bool round_run(og_race *race, int64_t begun, bool is_timed) {
  for (int32_t i = 0; i < race->count; ++i) {
    if (race->racers[i].is_out) continue;
    racer_run(race, &race->racers[i], is_timed);
    race->spent_ns = og_now_ns() - begun;
    if (race->spent_ns >= race->most_ns) return false;
  }
  return true;
}

static int32_t winner(const og_race *race) {
  const int64_t least = least_ns(race);
  if (!are_steady(race)) return -1;
  for (int32_t i = 0; i < race->count; ++i) {
    const int64_t ns = race->racers[i].best_ns;
    if (ns > 0 && ns <= least + least / OG_RACE_TIE) return i;
  }
  return -1;
}

int32_t og_race_run(og_race *race) {
  const int64_t begun = og_now_ns();
  race->spent_ns = 0;
  bool has_time = round_run(race, begun, false);
  for (int32_t round = 1; has_time && round <= OG_RACE_ROUNDS_MOST; ++round) {
    has_time = round_run(race, begun, true);
    const bool is_decided = has_time && drop_out(race, round) <= 1;
    if ((is_decided || is_enough(race, round)) && are_steady(race)) break;
  }
  return winner(race);
}
