// SPDX-License-Identifier: Apache-2.0
// What a child does: draws calls, runs them, and tries the probes on each.

#ifndef OG_CHECK_PROBE_TRIALS_H
#define OG_CHECK_PROBE_TRIALS_H

#include <opgraft/check.h>

#include "module/module.h"

enum { OG_SHRINKS_MAX = 24 };

// What a child is to do.
typedef struct og_job {
  const opgraft_op *op;
  const opgraft_check_options *options;
  int32_t call_begin;
  int32_t call_end;
  int32_t probe_begin;  // of the first call
  uint64_t disabled;    // bits of probes
  // The steps that make the only call smaller.
  int32_t path[OG_SHRINKS_MAX];
  int32_t path_count;
  // Shrinking: behind them every further one is tried from `step`.
  bool is_shrinking;
  int32_t step;
  int32_t probe;         // the only one besides base
  int32_t exchanged[2];  // dims whose sizes the kernel gets in exchange; if
                         // they are equal, none
} og_job;

// Does an og_job in a child process (run/child.h), and sends what comes of it
// as records.
void og_trials_run(const void *job);

#endif  // OG_CHECK_PROBE_TRIALS_H
