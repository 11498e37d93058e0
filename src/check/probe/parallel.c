// SPDX-License-Identifier: Apache-2.0
// Probes of what a result may not depend on: earlier calls, the order and
// number of chunks, threads.

#include <malloc.h>
#include <string.h>

#include "check/probe/enlarge.h"
#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

// --- Repetition --------------------------------------------------------------

static size_t allocated_bytes(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33) && \
    !defined(__SANITIZE_ADDRESS__)
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

enum { LEAK_RUNS = 4, CACHE_RUNS = 12 };

// What each of the last runs left allocated, where that is the same and not
// nothing; else 0.
static size_t growth(og_trial *trial) {
  size_t used[LEAK_RUNS];
  og_verdict verdict;
  for (int32_t i = 0; i < LEAK_RUNS; ++i) {
    og_trial_differs(trial, &og_mode_plain, -1, &verdict, NULL);
    used[i] = allocated_bytes();
  }
  const size_t last = used[LEAK_RUNS - 1] - used[LEAK_RUNS - 2];
  for (int32_t i = 1; i < LEAK_RUNS; ++i)
    if (used[i] <= used[i - 1] || used[i] - used[i - 1] != last) return 0;
  return last;
}

// A leak grows by as much at each call; what is allocated once does not. The C
// library keeps a few freed blocks of each size for the thread, and counts
// them as used: so it is asked again when those are full.
static void see_leak(og_trial *trial) {
  og_verdict verdict;
  if (growth(trial) == 0) return;
  for (int32_t i = 0; i < CACHE_RUNS; ++i)
    og_trial_differs(trial, &og_mode_plain, -1, &verdict, NULL);
  const size_t bytes = growth(trial);
  if (bytes > 0)
    og_tell_finding(trial->op, OPGRAFT_MEMORY_LEAK, false, "",
                    "each call leaves %zu byte%s allocated", bytes,
                    og_plural((int64_t)bytes));
}

void og_probe_repeat(og_trial *trial) {
  if (!og_is_comparable(trial)) return;
  og_verdict verdict;
  bool differs = og_trial_differs(trial, &og_mode_plain, 0, &verdict, NULL);
  for (int32_t i = 0; i < 2 && !differs; ++i) {
    og_run_another(trial);
    differs = og_trial_differs(trial, &og_mode_plain, 0, &verdict, NULL);
  }
  if (!differs && og_run_smaller(trial))
    differs = og_trial_differs(trial, &og_mode_plain, 0, &verdict, NULL);
  for (int32_t k = 0; !differs; ++k) {
    og_run_smaller(trial);  // so that what is kept by the sizes is not there
    if (!og_run_changed(trial, k)) break;
    differs = og_trial_differs(trial, &og_mode_plain, 0, &verdict, NULL);
  }
  if (differs)
    og_trial_set_erratic(trial, &verdict);
  else if (trial->device == NULL)  // a driver keeps memory of its own
    see_leak(trial);
}

// --- Shares ------------------------------------------------------------------

static const og_mode share_modes[] = {
    {.shares = OG_SHARES_ONE, .threads = 4},
    {.shares = OG_SHARES_FORWARD, .threads = 1},
    {.shares = OG_SHARES_FORWARD, .threads = 8, .tracks_writes = true},
    {.shares = OG_SHARES_REVERSE, .threads = 3},
    {.shares = OG_SHARES_SHUFFLED, .threads = 2},
    {.shares = OG_SHARES_SHUFFLED, .threads = 5, .tracks_writes = true},
};

static bool has_index_argument(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (trial->sample.is_given[t] &&
        (trial->sample.type[t].code == OG_CODE_INT ||
         trial->sample.type[t].code == OG_CODE_UINT))
      return true;
  return false;
}

// Whether each index argument has room for indices that all differ.
static bool may_be_distinct(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &trial->inputs.tensor[t][e];
      if (a->data != NULL && og_is_integral(a->type) &&
          a->count > og_index_bound(&trial->sample))
        return false;
    }
  return true;
}

// Runs the call with indices that differ from each other, plainly and in
// `mode`; true if that shows a dependence on order, or a clash.
static bool clashes_with_distinct(og_trial *trial, const og_mode *mode) {
  og_sample distinct = trial->sample;
  og_inputs inputs;
  og_outputs one, several;
  bool differs = false;
  og_mode quiet = *mode;
  quiet.is_quiet = true;
  distinct.index_values = OG_INDEX_DISTINCT;
  if (!og_trial_fill(trial, &distinct, &inputs)) return false;
  if (og_trial_run(trial, &distinct, &inputs, &og_mode_plain, &one) == OG_RAN) {
    if (og_trial_run(trial, &distinct, &inputs, &quiet, &several) == OG_RAN) {
      differs = trial->has_clash ||
                og_outputs_compare(trial->op, &several, &one, -1).differs;
      og_outputs_reset(&several);
    }
    og_outputs_reset(&one);
  }
  og_inputs_reset(&inputs);
  return differs;
}

// Where the last of several writes to one index wins, order matters by the
// operator's nature: then it matters without threads too, and not where the
// indices differ. Where they add up, order does not matter, and a difference
// is a race.
static bool is_excused(og_trial *trial, const og_mode *mode) {
  og_verdict verdict;
  og_mode reverse = og_mode_plain;
  if (!has_index_argument(trial)) return false;
  reverse.shares = OG_SHARES_REVERSE;
  reverse.threads = 2;
  reverse.is_quiet = true;
  if (!og_trial_differs(trial, &reverse, -1, &verdict, NULL)) return false;
  return !may_be_distinct(trial) || !clashes_with_distinct(trial, mode);
}

static bool see_clash(og_trial *trial, const og_mode *mode) {
  char name[64], text[160];
  if (!trial->has_clash) return false;
  memcpy(name, trial->clash_name, sizeof name);
  memcpy(text, trial->clash_text, sizeof text);
  if (strcmp(name, "static data") != 0 && is_excused(trial, mode)) return false;
  og_tell_finding(trial->op, OPGRAFT_DATA_RACE, false, name, "%s of %s", text,
                  name);
  return true;
}

static bool see_shares(og_trial *trial, const og_mode *mode) {
  const double slack = og_has_flag(trial, OG_DETERMINISTIC) ? 0 : -1;
  og_verdict verdict;
  const bool differs = og_trial_differs(trial, mode, slack, &verdict, NULL);
  if (see_clash(trial, mode)) return true;
  if (!differs || is_excused(trial, mode) || !og_trial_is_steady(trial))
    return false;
  if (mode->shares == OG_SHARES_ONE)
    og_tell_finding(trial->op, OPGRAFT_THREAD_DEPENDENT, false, verdict.name,
                    "with %d threads instead of 1, %s %s", mode->threads,
                    verdict.name, verdict.text);
  else
    og_tell_finding(trial->op, OPGRAFT_CHUNK_ORDER_DEPENDENT, false,
                    verdict.name,
                    "with the chunks of parallel_for cut or ordered "
                    "otherwise, %s %s",
                    verdict.name, verdict.text);
  return true;
}

// True if something was found.
static bool see_all_shares(og_trial *trial) {
  for (size_t i = 0; i < sizeof share_modes / sizeof *share_modes; ++i) {
    og_mode mode = share_modes[i];
    mode.poison = mode.workspace_poison = mode.stack_poison = 0xff;
    mode.seed = og_seed_mix(trial->sample.seed, i);
    if (see_shares(trial, &mode)) return true;
  }
  return false;
}

// A loop that is never cut, since its grain is larger than the call: a larger
// call's is.
static void see_larger(og_trial *trial) {
  enum { SHARES_WANTED = 3 };
  const int64_t total = trial->share_total;
  const int64_t wanted = SHARES_WANTED * trial->share_grain;
  og_held held;
  if (total <= 0 || wanted < SHARES_WANTED || total >= wanted ||
      trial->forward != NULL ||
      !og_trial_enlarge(trial, (wanted + total - 1) / total, &held))
    return;
  og_tell_shown(&trial->sample, &trial->inputs);
  see_all_shares(trial);
  og_trial_restore(trial, &held);
  og_tell_shown(&trial->sample, &trial->inputs);
}

void og_probe_chunks(og_trial *trial) {
  if (!og_is_comparable(trial) || see_all_shares(trial)) return;
  see_larger(trial);
}

// When a clash of real threads shows is chance: a call that is shown again gets
// more rounds and more time, since a smaller call clashes less often.
enum { THREADS = 4, THREAD_ROUNDS = 12, THREAD_ROUNDS_AGAIN = 2000 };

static bool has_team(og_trial *trial) {
  return trial->team != NULL ||
         og_team_create(THREADS, &trial->team, NULL) == OG_OK;
}

void og_probe_threads(og_trial *trial) {
  if (!og_is_comparable(trial) || !has_team(trial)) return;
  const double slack = og_has_flag(trial, OG_DETERMINISTIC) ? 0 : -1;
  og_mode mode = og_mode_plain;
  mode.shares = OG_SHARES_REAL;
  mode.threads = THREADS;
  const int32_t rounds =
      trial->options->call != NULL ? THREAD_ROUNDS_AGAIN : THREAD_ROUNDS;
  for (int32_t i = 0; i < rounds; ++i) {
    og_verdict verdict;
    if (!og_trial_differs(trial, &mode, slack, &verdict, NULL)) continue;
    if (is_excused(trial, &mode) || !og_trial_is_steady(trial)) return;
    og_tell_finding(trial->op, OPGRAFT_THREAD_DEPENDENT, false, verdict.name,
                    "with %d threads, %s %s", THREADS, verdict.name,
                    verdict.text);
    return;
  }
}
