// SPDX-License-Identifier: Apache-2.0
// One sampled call inside a checking child: its values, runs of its kernel in
// various surroundings, and what the runs gave.

#ifndef OG_CHECK_RUN_TRIAL_H
#define OG_CHECK_RUN_TRIAL_H

#include <opgraft/check.h>

#include "base/team.h"
#include "check/run/array.h"
#include "check/run/device.h"
#include "check/run/mode.h"
#include "check/sample/sample.h"

enum { OG_WORDS_MAX = 12 };

typedef enum og_ran {
  OG_RAN,
  OG_RAN_REFUSED,  // the kernel said no, with a status
  OG_RAN_WRONG,    // it ran and broke a rule, which was reported
  OG_RAN_FAILED,   // check itself could not (memory)
} og_ran;

typedef struct og_trial {
  const opgraft_op *op;
  const opgraft_check_options *options;
  og_sample sample;
  const opgraft_op *forward;  // whose gradient `op` is; NULL: drawn freely
  og_sample forward_sample;
  og_inputs inputs;
  og_outputs base;  // of the plain run
  bool has_base;
  bool is_settled;  // this call's values differ from run to run
  bool is_erratic;  // the operator's do: nothing is compared any more
  int32_t run_count;
  int32_t reference_count;  // 1 if this call was compared with a reference
  bool is_slow;  // one run takes milliseconds: only what matters most
  og_team *team;
  int64_t share_total;  // of the last run's parallel_for; 0: it had none
  int64_t share_grain;
  bool has_clash;  // two shares of the last tracked run wrote one byte
  char clash_name[64];
  char clash_text[160];
  char word[OG_WORDS_MAX][24];  // that refusals have quoted
  int32_t word_count;
  char refusal[200];
  og_status refusal_status;
  int32_t layout_count[OG_LAYOUT_COUNT];  // runs by og_layout
  int32_t offset_count;
  uint32_t arguments_read;  // bits, of the last run that watched them
  uint8_t entries_read[OPGRAFT_ATTR_MAX];  // of lists, the same
  bool tensor_read;         // the last run read the tensor that it watched
  int32_t exchanged[2];     // dims whose sizes kernels of `op` get in exchange
  og_check_device *device;  // where the kernels of `op` run; NULL: the CPU
} og_trial;

// Runs the sample on `inputs`. Where it returns OG_RAN, *out holds the results,
// which the caller resets; else *out is empty.
og_ran og_trial_run(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, const og_mode *mode,
                    og_outputs *out);

#endif  // OG_CHECK_RUN_TRIAL_H
