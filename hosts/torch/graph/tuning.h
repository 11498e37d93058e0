// SPDX-License-Identifier: Apache-2.0
// What the torch host asks of the tuner, and how the tuner speaks.

#ifndef OG_TORCH_TUNING_H
#define OG_TORCH_TUNING_H

#include <opgraft/executable.h>

#include "torch/base/host.h"

typedef struct tuning {
  int weights_stay;   // parameters seldom change between calls
  long long most_ns;  // for timing; 0: none
  const char *with;   // versions of what is timed
} tuning;

// Fills the host's fields. The file is this processor's in the user's cache.
void tuning_host(const tuning *from, opgraft_host *host);
// opgraft_host.log, on Python's standard error. Under the interpreter lock.
void tuning_say(void *context, const char *text, int32_t is_progress);

#endif  // OG_TORCH_TUNING_H
