// SPDX-License-Identifier: Apache-2.0
// Two calls on two streams of a device, which nothing orders.

#ifndef OG_CHECK_RUN_STREAMS_H
#define OG_CHECK_RUN_STREAMS_H

#include "check/run/compare.h"
#include "check/run/trial.h"

// A call of the trial's operator, and what it gives alone. The operator has no
// lists, mutates nothing, and the sizes of its results do not depend on data.
typedef struct og_call_alone {
  const og_sample *sample;
  const og_inputs *inputs;
  const og_outputs *wanted;
} og_call_alone;

// Gives each of the two calls to a stream of its own, several times before
// anything is waited for, and that `rounds` times over or for limit_ms of
// processor time; the first result that differs from what the call gives alone.
// Nothing where memory is short or the kernel fails. What the driver reports is
// told. A kernel that does not end ends this process, as in other runs.
og_verdict og_run_on_streams(og_trial *trial, const og_call_alone calls[2],
                             int32_t rounds, int32_t limit_ms);

#endif  // OG_CHECK_RUN_STREAMS_H
