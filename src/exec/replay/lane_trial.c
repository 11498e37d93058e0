// SPDX-License-Identifier: Apache-2.0
// Whether lanes pay: found by the clock, in the first replays of a plan.
//
// A plan begins serial. Its replays are timed, as a whole and then by step; a
// plan with sections is made of that and timed in turn. A section that is not
// faster than its steps were goes, and so do all if the whole is not. What is
// left afterwards stays, and no replay looks at a clock again; but where all
// went, the machine may have been busy, so a few more trials follow, each after
// many more replays.
//
// Invariants: a trial is its entry's, and one block of memory; the executable's
// mutex guards it.

#include "exec/replay/lane_trial.h"

#include <string.h>

#include "base/clock.h"
#include "base/grain.h"
#include "exec/replay/entry.h"
#include "exec/replay/sections.h"

enum {
  WARM = 2,      // replays that are not timed
  TOTALS = 4,    // timed as a whole
  STEPS = 3,     // timed by step
  LANES = 6,     // timed by section
  ROUNDS = 3,    // plans with sections that are tried
  TRIALS = 4,    // of a plan whose sections went
  AGAIN = 1000,  // replays until the second one
  AGAIN_GROWTH = 10
};

typedef enum og_phase { PHASE_TOTALS, PHASE_STEPS, PHASE_LANES } og_phase;

typedef struct og_lane_trial {
  og_phase phase;
  int32_t replays;  // in this phase
  int32_t rounds;
  int32_t trials;               // that are over
  int64_t serial_ns, lanes_ns;  // the least
  size_t serial_bytes;          // arenas of the serial plan
  int64_t *cost_ns;             // by node: the least
  uint8_t *flags;               // by node: OG_STEP_*
  int64_t *section_ns;          // by section: the least
} og_lane_trial;

static void least(int64_t *known, int64_t found) {
  if (*known == 0 || found < *known) *known = found;
}

// --- Life --------------------------------------------------------------------

void og_lane_trial_begin(og_plan_entry *entry) {
  const opgraft_executable *executable = entry->executable;
  const size_t nodes = (size_t)executable->graph->node_count + 1;
  if (executable->lanes < 2 || entry->plan->lanes.count < 2) return;
  // Short of memory there is no trial, and all runs as it is.
  og_lane_trial *trial = og_alloc_zeroed(
      1, sizeof *trial + nodes * (2 * sizeof *trial->cost_ns + 1));
  if (trial == NULL) return;
  int64_t *numbers = (int64_t *)(trial + 1);
  *trial = (og_lane_trial){.cost_ns = numbers,
                           .section_ns = numbers + nodes,
                           .flags = (uint8_t *)(numbers + 2 * nodes),
                           .serial_bytes = og_plan_arena_bytes(entry->plan)};
  entry->trial = trial;
  __atomic_store_n(&entry->is_tried, true, __ATOMIC_RELEASE);
}

static void trial_end(og_plan_entry *entry) {
  __atomic_store_n(&entry->is_tried, false, __ATOMIC_RELEASE);
}

static int64_t again_after(int32_t trials) {
  int64_t replays = AGAIN;
  for (int32_t i = 1; i < trials; ++i) replays *= AGAIN_GROWTH;
  return replays;
}

// The entry's sections went.
static void trial_lose(og_plan_entry *entry) {
  if (++entry->trial->trials == TRIALS) return;
  const int64_t *replays = &entry->executable->stats.replays;
  __atomic_store_n(&entry->try_at,
                   __atomic_load_n(replays, __ATOMIC_RELAXED) +
                       again_after(entry->trial->trials),
                   __ATOMIC_RELAXED);
}

void og_lane_trial_again(og_plan_entry *entry) {
  opgraft_executable *executable = entry->executable;
  pthread_mutex_lock(&executable->mutex);
  if (entry->try_at != 0) {  // else another thread was here
    og_lane_trial *trial = entry->trial;
    const size_t nodes = (size_t)executable->graph->node_count + 1;
    __atomic_store_n(&entry->try_at, 0, __ATOMIC_RELAXED);
    trial->phase = PHASE_TOTALS;
    trial->replays = trial->rounds = 0;
    trial->serial_ns = 0;
    memset(trial->cost_ns, 0, nodes * sizeof *trial->cost_ns);
    memset(trial->flags, 0, nodes);
    __atomic_store_n(&entry->is_tried, true, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&executable->mutex);
}

// --- Other plans -------------------------------------------------------------

// Branches that run at once need memory at once.
static size_t most_growth(const og_lane_trial *trial) {
  const size_t again = trial->serial_bytes;
  if (again < 1 << 16) return 1 << 16;
  return again < 1 << 25 ? again : 1 << 25;
}

// The entry's place goes to one with sections, or (NULL) without; the trial
// goes with it. Without memory for it the entry stays as it is, for good.
static void entry_exchange(og_plan_entry *entry,
                           const og_lane_request *request) {
  opgraft_error error;
  og_plan_entry *made;
  og_lane_trial *trial = entry->trial;
  trial_end(entry);
  if (entry->is_evicted ||
      og_entry_create(entry->executable, entry->plan->symbols, request, &made,
                      &error) != OG_OK)
    return;
  const og_plan *plan = made->plan;
  const bool is_small =
      og_plan_arena_bytes(plan) <= trial->serial_bytes + most_growth(trial);
  const bool has_sections = plan->lanes.section_count > 0;
  if (request != NULL && (!has_sections || !is_small)) {
    og_entry_destroy(made);
    if (entry->plan->lanes.section_count > 0) entry_exchange(entry, NULL);
    return;
  }
  entry->trial = NULL;
  made->trial = trial;
  og_entry_replace(entry, made);
  if (!has_sections) {
    trial_lose(made);
    return;
  }
  trial->phase = PHASE_LANES;
  trial->replays = 0;
  trial->lanes_ns = 0;
  memset(trial->section_ns, 0,
         (size_t)plan->lanes.section_count * sizeof *trial->section_ns);
  __atomic_store_n(&made->is_tried, true, __ATOMIC_RELEASE);
}

static void lanes_try(og_plan_entry *entry) {
  og_lane_trial *trial = entry->trial;
  const og_lane_request request = {.cost_ns = trial->cost_ns,
                                   .flags = trial->flags,
                                   .lanes = entry->executable->lanes,
                                   .fork_ns = OG_LANES_FORK_NS};
  const bool is_last = trial->rounds++ == ROUNDS;
  entry_exchange(entry, is_last ? NULL : &request);
}

// --- What was measured -------------------------------------------------------

static void steps_note(og_lane_trial *trial, const og_instance *instance,
                       const int64_t *step_ns) {
  for (int32_t i = 0; i < instance->step_count; ++i) {
    const int32_t node = instance->step_infos[i].node;
    least(&trial->cost_ns[node], step_ns[i]);
    if (instance->step_infos[i].is_pinned) trial->flags[node] |= OG_STEP_PINNED;
  }
}

static int64_t section_cost(const og_lane_trial *trial, const og_plan *plan,
                            const og_section *section) {
  int64_t sum = 0;
  for (int32_t s = section->first; s < og_section_end(section); ++s)
    sum += trial->cost_ns[plan->lanes.order[s]];
  return sum;
}

// Sections that are not worth it run alone from now on. Whether there are any.
static bool sections_judge(og_lane_trial *trial, const og_plan *plan) {
  const og_lanes *lanes = &plan->lanes;
  bool has_bad = false;
  for (int32_t k = 0; k < lanes->section_count; ++k) {
    const og_section *section = &lanes->sections[k];
    const int64_t cost = section_cost(trial, plan, section);
    if (trial->section_ns[k] < cost - cost / 16) continue;
    has_bad = true;
    for (int32_t s = section->first; s < og_section_end(section); ++s)
      trial->flags[lanes->order[s]] |= OG_STEP_ALONE;
  }
  return has_bad;
}

static void lanes_note(og_plan_entry *entry, const og_instance *instance,
                       int64_t total_ns, const int64_t *section_ns) {
  og_lane_trial *trial = entry->trial;
  if (trial->replays <= WARM) return;
  least(&trial->lanes_ns, total_ns);
  for (int32_t k = 0; k < instance->section_count; ++k)
    least(&trial->section_ns[k], section_ns[k]);
  if (trial->replays < WARM + LANES) return;
  if (sections_judge(trial, entry->plan)) {
    lanes_try(entry);
  } else if (trial->lanes_ns > trial->serial_ns - trial->serial_ns / 32) {
    entry_exchange(entry, NULL);
  } else {
    trial_end(entry);
    entry->executable->stats.serial_ns = trial->serial_ns;
    entry->executable->stats.lanes_ns = trial->lanes_ns;
  }
}

// Under the mutex, after a replay that went well.
static void replay_note(og_plan_entry *entry, const og_instance *instance,
                        int64_t total_ns, const int64_t *times) {
  og_lane_trial *trial = entry->trial;
  ++trial->replays;
  if (trial->phase == PHASE_LANES) {
    lanes_note(entry, instance, total_ns, times);
  } else if (trial->phase == PHASE_TOTALS) {
    if (trial->replays > WARM) least(&trial->serial_ns, total_ns);
    if (trial->replays < WARM + TOTALS) return;
    trial->phase = PHASE_STEPS;
    trial->replays = 0;
    if (trial->serial_ns < OG_LANES_LEAST_NS) trial_end(entry);
  } else {
    steps_note(trial, instance, times);
    if (trial->replays == STEPS) lanes_try(entry);
  }
}

og_status og_lane_trial_run(const og_instance *instance, const og_run *run) {
  og_plan_entry *entry = instance->entry;
  opgraft_executable *executable = entry->executable;
  pthread_mutex_lock(&executable->mutex);
  const bool is_tried = entry->is_tried;
  const og_phase phase = is_tried ? entry->trial->phase : PHASE_TOTALS;
  pthread_mutex_unlock(&executable->mutex);
  const size_t count =
      (size_t)instance->step_count + (size_t)instance->section_count + 1;
  int64_t *times = is_tried && phase != PHASE_TOTALS
                       ? og_alloc_zeroed(count, sizeof *times)
                       : NULL;
  const bool is_by_step = times != NULL && phase == PHASE_STEPS;
  const int64_t begun = og_now_ns();
  const og_status status = is_by_step ? og_steps_run_timed(instance, run, times)
                                      : og_steps_run(instance, run, times);
  const int64_t total = og_now_ns() - begun;
  pthread_mutex_lock(&executable->mutex);
  if (status == OG_OK && entry->is_tried && entry->trial->phase == phase &&
      (times != NULL || phase == PHASE_TOTALS))
    replay_note(entry, instance, total, times);
  pthread_mutex_unlock(&executable->mutex);
  og_free(times);
  return status;
}
