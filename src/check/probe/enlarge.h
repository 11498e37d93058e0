// SPDX-License-Identifier: Apache-2.0
// A trial whose call is a larger one, for the time of a probe.

#ifndef OG_CHECK_PROBE_ENLARGE_H
#define OG_CHECK_PROBE_ENLARGE_H

#include "check/run/array.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"

// The trial's own call, meanwhile.
typedef struct og_held {
  og_sample sample;
  og_inputs inputs;
  og_outputs base;
} og_held;

// Makes `sample` the trial's call and runs it; false, and nothing is changed,
// where it does not run.
bool og_trial_take(og_trial *trial, const og_sample *sample, og_held *out_held);
// The same with a plain dim, or a pack's first one, `factor` times as large,
// such that the call's parallel_for has more to do.
bool og_trial_enlarge(og_trial *trial, int64_t factor, og_held *out_held);
void og_trial_restore(og_trial *trial, og_held *held);

#endif  // OG_CHECK_PROBE_ENLARGE_H
