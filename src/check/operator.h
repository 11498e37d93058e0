// SPDX-License-Identifier: Apache-2.0
// The check of one operator.

#ifndef OG_CHECK_OPERATOR_H
#define OG_CHECK_OPERATOR_H

#include <opgraft/check.h>

#include "check/driver.h"
#include "check/probe/table.h"
#include "check/probe/trials.h"
#include "check/run/record.h"
#include "check/verdict/finding.h"

// Zeroed but for `sink` and `target`, it serves for one operator after another.
typedef struct og_operator_check {
  og_job job;
  og_findings found;
  int32_t crashes[OG_PROBE_COUNT];
  og_record_call call;  // the last call that began
  bool is_drawing;      // it is being drawn yet
  int32_t probe;
  int32_t counted_call;
  const og_target *target;
  bool has_ended;  // no more calls: too many crashes, or time is up
  const opgraft_check_sink *sink;
} og_operator_check;

// Runs the operator's calls in children, or in this process where the options
// say so; the findings, one for each cause, are in check->found. Failure: no
// child could be made, or options->call is not a call's number.
og_status og_operator_check_run(og_operator_check *check, const opgraft_op *op,
                                const opgraft_check_options *options,
                                opgraft_error *error);

#endif  // OG_CHECK_OPERATOR_H
