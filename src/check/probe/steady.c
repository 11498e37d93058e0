// SPDX-License-Identifier: Apache-2.0
// Whether a call's results stay as they are.

#include "check/probe/steady.h"

#include <string.h>

#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/shrink.h"
#include "check/sample/valid.h"

bool og_trial_differs(og_trial *trial, const og_mode *mode, double slack,
                      og_verdict *out_verdict, og_ran *out_ran) {
  og_outputs out;
  const og_ran ran =
      og_trial_run(trial, &trial->sample, &trial->inputs, mode, &out);
  if (out_ran != NULL) *out_ran = ran;
  out_verdict->differs = false;
  if (ran != OG_RAN) return false;
  *out_verdict = og_outputs_compare(trial->op, &out, &trial->base, slack);
  og_outputs_reset(&out);
  return out_verdict->differs;
}

bool og_run_quietly(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, og_outputs *out) {
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  return og_trial_run(trial, sample, inputs, &mode, out) == OG_RAN;
}

void og_trial_set_erratic(og_trial *trial, const og_verdict *verdict) {
  trial->is_erratic = true;
  if (!og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT))
    og_tell_finding(trial->op, OPGRAFT_NOT_REPEATABLE, false, verdict->name,
                    "the same call later gives another result: %s",
                    verdict->text);
}

enum { STEADY_RUNS = 10 };

bool og_trial_is_steady(og_trial *trial) {
  og_verdict verdict;
  for (int32_t i = 0; i < STEADY_RUNS && !trial->is_erratic; ++i)
    if (og_trial_differs(trial, &og_mode_plain, 0, &verdict, NULL))
      og_trial_set_erratic(trial, &verdict);
  return !trial->is_erratic;
}

enum { STEPS_MAX = 40 };

bool og_run_smaller(og_trial *trial) {
  og_sample smaller;
  og_inputs inputs;
  og_outputs out;
  opgraft_error error;
  if (trial->forward != NULL) return false;
  for (int32_t step = 1; step < STEPS_MAX; ++step) {
    if (!og_sample_shrink(&trial->sample, step, &smaller)) return false;
    if (!og_sample_is_valid(&smaller, INT64_MAX, &error) ||
        og_sample_numel(&smaller) >= og_sample_numel(&trial->sample) ||
        og_sample_numel(&smaller) == 0 || og_sample_has_index_hazard(&smaller))
      continue;
    if (!og_inputs_fill(&inputs, &smaller)) return false;
    og_tell_shown(&smaller, &inputs);  // of a crash
    const bool ran = og_run_quietly(trial, &smaller, &inputs, &out);
    og_tell_shown(&trial->sample, &trial->inputs);
    if (ran) og_outputs_reset(&out);
    og_inputs_reset(&inputs);
    return ran;
  }
  return false;
}

// Changes the attribute to a value beside it.
static bool attr_change(og_attr *a) {
  switch (a->kind) {
    case OG_ATTR_INT:
      ++a->i;
      return true;
    case OG_ATTR_BOOL:
      a->i = !a->i;
      return true;
    case OG_ATTR_FLOAT:
      a->f = 2 * a->f + 0.5;
      return true;
    default:
      return false;
  }
}

bool og_run_changed(og_trial *trial, int32_t which) {
  og_sample other = trial->sample;
  og_outputs out;
  opgraft_error error;
  int32_t k = 0;
  for (; k < trial->op->decl->attr_count; ++k) {
    if (attr_change(&other.attr[k]) && which-- == 0) break;
    other.attr[k] = trial->sample.attr[k];
  }
  if (k == trial->op->decl->attr_count || trial->forward != NULL) return false;
  if (!og_sample_is_valid(&other, INT64_MAX, &error) ||
      memcmp(other.shape, trial->sample.shape, sizeof other.shape) != 0)
    return true;
  og_tell_shown(&other, &trial->inputs);  // of a crash
  if (og_run_quietly(trial, &other, &trial->inputs, &out))
    og_outputs_reset(&out);
  og_tell_shown(&trial->sample, &trial->inputs);
  return true;
}

void og_run_another(og_trial *trial) {
  og_sample other = trial->sample;
  og_inputs inputs;
  og_outputs out;
  other.seed = og_seed_mix(other.seed, 4242);
  if (!og_trial_fill(trial, &other, &inputs)) return;
  if (og_run_quietly(trial, &other, &inputs, &out)) og_outputs_reset(&out);
  og_inputs_reset(&inputs);
}
