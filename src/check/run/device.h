// SPDX-License-Identifier: Apache-2.0
// The device on which a child's kernels run, where the options name a driver.

#ifndef OG_CHECK_RUN_DEVICE_H
#define OG_CHECK_RUN_DEVICE_H

#include <opgraft/check.h>
#include <pthread.h>

#include "check/run/mirror.h"
#include "device/driver.h"

typedef struct og_check_device {
  opgraft_driver *driver;
  int32_t type;     // OG_EXT_DEV, ...
  void *copies;     // the stream of copies
  void *work;       // the stream of kernels, ordered with the other by events
  int64_t wait_ns;  // for a run's work; negative: for ever
  og_mirror *now;   // memory of the run in progress
  og_mirror *kept;  // of the run before it: nobody may write it any more
  pthread_mutex_t lock;  // of what follows
  int32_t report_count;
  char report[400];  // the first one that was not taken
} og_check_device;

// Loads the driver that the options name, and makes the streams.
og_status og_check_device_open(const opgraft_check_options *options,
                               og_check_device **out_device,
                               opgraft_error *error);
// NULL is allowed.
void og_check_device_close(og_check_device *device);
// What the driver has reported since the last call; false: nothing.
bool og_check_device_report(og_check_device *device, char *out, size_t size);
// Whether even setting a byte fails: no later run on this device means
// anything.
bool og_check_device_is_lost(og_check_device *device);

#endif  // OG_CHECK_RUN_DEVICE_H
