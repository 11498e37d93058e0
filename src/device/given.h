// SPDX-License-Identifier: Apache-2.0
// A launch as a driver gets it. What its call has of the host's (threads, a
// place for the kernel's reason) belongs to whoever made it, and the driver
// calls `run` where it likes.

#ifndef OG_DEVICE_GIVEN_H
#define OG_DEVICE_GIVEN_H

#include <opgraft/device.h>

#include "base/float_env.h"

typedef struct og_given {
  og_launch launch;
  og_call call;
  og_device_error reason;  // of a kernel that ran before the driver returned
  og_float_env env;        // the host's
} og_given;

void og_given_make(og_given *out, const og_launch *launch);

#endif  // OG_DEVICE_GIVEN_H
