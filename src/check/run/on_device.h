// SPDX-License-Identifier: Apache-2.0
// A run on a device: its memory there, the launch, and what shows afterwards.

#ifndef OG_CHECK_RUN_ON_DEVICE_H
#define OG_CHECK_RUN_ON_DEVICE_H

#include "check/run/running.h"

// Whether the run is the device's. A device refuses the call's own types where
// it has no kernel for them; runs in other types serve for comparisons, and
// the CPU may do them.
bool og_is_on_device(const og_trial *trial, const og_sample *sample,
                     const og_mode *mode);
// Copies the call's memory to the device, where the run is one; run->device is
// NULL afterwards where the call is the CPU's. False where it could not.
bool og_put_on_device(og_running *run);
// Runs the kernel there, and copies the memory back.
og_status og_device_launch(og_running *run);
// Whether the driver has reported anything since it was asked; tells it as a
// finding where is_told says so.
bool og_device_see_report(const og_trial *trial, bool is_told);
// Says that a kernel is not done in time, and ends the process.
void og_device_end_late(const og_trial *trial);
// Reports what shows once the memory is back: the driver's own reports, and
// writes into the memory of the run before.
void og_see_device(og_running *run);

#endif  // OG_CHECK_RUN_ON_DEVICE_H
