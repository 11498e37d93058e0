// SPDX-License-Identifier: Apache-2.0
// Static data of the module: whether calls write it, and whether the first
// call of a process decides what later ones give.

#include "check/probe/state.h"

#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/static_data.h"
#include "check/run/trial.h"

enum { SPANS_MAX = 4, STATIC_BYTES_MAX = 1 << 26 };

typedef struct statics {
  og_data_span span[SPANS_MAX];
  char *copy[SPANS_MAX];
  int32_t count;
} statics;

// As it was before this process ran any kernel of the operator's module.
static statics pristine;

static void statics_take(statics *s) {
  for (int32_t i = 0; i < s->count; ++i) {
    free(s->copy[i]);
    s->copy[i] =
        s->span[i].bytes <= STATIC_BYTES_MAX ? malloc(s->span[i].bytes) : NULL;
    if (s->copy[i] != NULL)
      memcpy(s->copy[i], s->span[i].data, s->span[i].bytes);
  }
}

static void statics_put_back(const statics *s) {
  for (int32_t i = 0; i < s->count; ++i)
    if (s->copy[i] != NULL)
      memcpy(s->span[i].data, s->copy[i], s->span[i].bytes);
}

static bool statics_changed(const statics *s) {
  for (int32_t i = 0; i < s->count; ++i)
    if (s->copy[i] != NULL &&
        memcmp(s->copy[i], s->span[i].data, s->span[i].bytes) != 0)
      return true;
  return false;
}

void og_statics_begin(const opgraft_op *op) {
  if (op->decl->kernel_count == 0) return;
  pristine.count =
      og_static_spans(&op->decl->kernels[0], pristine.span, SPANS_MAX);
  statics_take(&pristine);
}

bool og_statics_rewind(void) {
  if (!statics_changed(&pristine)) return false;
  statics_put_back(&pristine);
  return true;
}

bool og_writes_statics(og_trial *trial) {
  statics s = {.count = 0};
  og_verdict verdict;
  s.count = og_static_spans(&trial->op->decl->kernels[0], s.span, SPANS_MAX);
  og_trial_differs(trial, &og_mode_plain, -1, &verdict, NULL);
  statics_take(&s);
  og_run_another(trial);
  bool changed = statics_changed(&s);
  statics_take(&s);
  og_trial_differs(trial, &og_mode_plain, -1, &verdict, NULL);
  changed = changed && statics_changed(&s);
  for (int32_t i = 0; i < s.count; ++i) free(s.copy[i]);
  return changed;
}

// What is set up once may depend on nothing but the code: the call is made as
// the first of all, and behind another one that is.
void og_probe_first(og_trial *trial) {
  og_outputs first;
  og_verdict verdict;
  if (!og_is_comparable(trial) || !statics_changed(&pristine)) return;
  statics_put_back(&pristine);
  if (og_trial_run(trial, &trial->sample, &trial->inputs, &og_mode_plain,
                   &first) != OG_RAN)
    return;
  statics_put_back(&pristine);
  og_run_another(trial);
  og_outputs later;
  if (og_trial_run(trial, &trial->sample, &trial->inputs, &og_mode_plain,
                   &later) == OG_RAN) {
    verdict = og_outputs_compare(trial->op, &later, &first, -1);
    if (verdict.differs)
      og_tell_finding(trial->op, OPGRAFT_NOT_REPEATABLE, false, verdict.name,
                      "what the first call leaves in static data changes "
                      "later results: %s",
                      verdict.text);
    og_outputs_reset(&later);
  }
  og_outputs_reset(&first);
}

// --- Other values at the same addresses --------------------------------------

// Runs the trial's own call, then `other` where its arguments lay.
static bool run_over(og_trial *trial, const og_sample *other,
                     const og_inputs *inputs, og_outputs *out) {
  og_outputs own;
  og_mode mode = og_mode_plain;
  const size_t position = og_guard_position();
  if (!og_run_quietly(trial, &trial->sample, &trial->inputs, &own))
    return false;
  og_outputs_reset(&own);
  og_guard_go_back(position);
  mode.is_quiet = mode.is_over = true;
  return og_trial_run(trial, other, inputs, &mode, out) == OG_RAN;
}

// Whether what a call leaves behind is found again by the addresses of its
// arguments, though their values have changed. Elsewhere every run has
// addresses of its own.
void og_probe_same_place(og_trial *trial) {
  og_sample other = trial->sample;
  og_inputs inputs;
  og_outputs wanted, got;
  other.seed = og_seed_mix(other.seed, 4343);
  if (!og_is_comparable(trial) || !og_trial_fill(trial, &other, &inputs))
    return;
  if (!og_run_quietly(trial, &other, &inputs, &wanted)) goto done;
  if (run_over(trial, &other, &inputs, &got)) {
    const og_verdict verdict = og_outputs_compare(trial->op, &got, &wanted, -1);
    if (verdict.differs && og_trial_is_steady(trial))
      og_tell_finding(trial->op, OPGRAFT_NOT_REPEATABLE, false, verdict.name,
                      "after a call with other values at the same addresses "
                      "the result differs: %s",
                      verdict.text);
    og_outputs_reset(&got);
  }
  og_outputs_reset(&wanted);
done:
  og_inputs_reset(&inputs);
}
