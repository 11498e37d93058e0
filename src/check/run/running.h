// SPDX-License-Identifier: Apache-2.0
// A run of a kernel in progress, and its memory.

#ifndef OG_CHECK_RUN_RUNNING_H
#define OG_CHECK_RUN_RUNNING_H

#include "call/call.h"
#include "check/run/device.h"
#include "check/run/parallel.h"
#include "check/run/place.h"
#include "check/run/trial.h"

typedef struct og_running {
  og_trial *trial;
  const og_sample *sample;
  const og_mode *mode;
  opgraft_frame frame;
  og_share_host host;
  og_placed in[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *in_entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_placed *fresh[OG_ARRAYS_MAX];
  int32_t fresh_count;
  og_guard *workspace;
  og_check_device *device;  // NULL: this run is the CPU's
  int64_t dim_before[OPGRAFT_DIM_MAX];
  bool is_wrong;  // it broke a rule
} og_running;

// Puts the arguments into guarded memory; false when memory is short.
bool og_running_put_arguments(og_running *run, const og_inputs *inputs);
// The same for results and workspace, once the frame has their sizes.
bool og_running_put_results(og_running *run);
// The fresh result's tensor as the kernel gets it.
og_tensor *og_running_result(og_running *run, const og_placed *placed);
// The argument whose memory is the fresh result's; NULL: it has its own.
const og_placed *og_running_under(const og_running *run, int32_t fresh);
// Whether the result's first dim is a bound, of which the kernel uses a part.
bool og_running_is_bound(const og_running *run, const og_placed *placed);
// Releases all memory, and the run.
void og_running_destroy(og_running *run);

#endif  // OG_CHECK_RUN_RUNNING_H
