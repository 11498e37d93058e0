// SPDX-License-Identifier: Apache-2.0
// Whether a call's results stay as they are.

#ifndef OG_CHECK_PROBE_STEADY_H
#define OG_CHECK_PROBE_STEADY_H

#include "check/run/compare.h"
#include "check/run/trial.h"

// Whether the operator's values may be compared from run to run.
static inline bool og_is_comparable(const og_trial *trial) {
  return trial->has_base && !trial->is_settled && !trial->is_erratic;
}
static inline bool og_has_flag(const og_trial *trial, uint32_t flag) {
  return (trial->op->decl->flags & flag) != 0;
}

// Whether a refusal is of the call, and not of what the machine lacks.
static inline bool og_is_of_call(og_status refusal) {
  return refusal == OG_INVALID || refusal == OG_SHAPE || refusal == OG_DTYPE ||
         refusal == OG_KERNEL;
}

// Runs the trial's own call in `mode` and compares it with the base run; true
// if it ran and differs, with the verdict. *out_ran may be NULL.
bool og_trial_differs(og_trial *trial, const og_mode *mode, double slack,
                      og_verdict *out_verdict, og_ran *out_ran);
// A plain run of which nothing is reported; true where it gives a result.
bool og_run_quietly(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, og_outputs *out);
// Another call of the same operator with other values.
void og_run_another(og_trial *trial);
// The trial's own call with one int, bool or float argument changed, each of
// them in turn: `which` counts them; false where there is no such one.
bool og_run_changed(og_trial *trial, int32_t which);
// Another call of smaller sizes; false where there is none.
bool og_run_smaller(og_trial *trial);
// Whether the plain run still gives what it gave at first, time and again.
// Asked before a difference is put down to anything else; if not, that is
// reported, and nothing is compared any more.
bool og_trial_is_steady(og_trial *trial);
// The plain run differs as the verdict says: reports that, where the operator
// does not say so itself, and compares nothing any more.
void og_trial_set_erratic(og_trial *trial, const og_verdict *verdict);

#endif  // OG_CHECK_PROBE_STEADY_H
