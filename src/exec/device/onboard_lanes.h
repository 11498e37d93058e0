// SPDX-License-Identifier: Apache-2.0
// Streams of a device for the lanes of an instance, ordered by events.

#ifndef OG_EXEC_DEVICE_ONBOARD_LANES_H
#define OG_EXEC_DEVICE_ONBOARD_LANES_H

#include "device/driver.h"
#include "exec/step/exec.h"

// Lane 0 is the stream of the call.
typedef struct og_onboard_lanes {
  opgraft_driver *driver;
  og_section *sections;  // in steps, all of them launches
  int32_t section_count;
  int32_t lane_count;           // most of a section
  void *streams[OG_LANES_MAX];  // NULL for lane 0
  void *events[OG_LANES_MAX];   // behind what each lane did last
} og_onboard_lanes;

// Takes the sections that `is_launch` holds of in each step, and makes streams
// and events for them. A failure leaves what og_onboard_lanes_release releases.
og_status og_onboard_lanes_make(og_onboard_lanes *lanes, og_instance *instance,
                                opgraft_driver *driver, int32_t device,
                                bool (*is_launch)(const og_instance *instance,
                                                  int32_t step),
                                opgraft_error *error);
// Nothing uses the streams any more.
void og_onboard_lanes_release(og_onboard_lanes *lanes);
// The section's lanes begin behind what `stream` was given.
og_status og_onboard_lanes_fork(const og_onboard_lanes *lanes,
                                const og_section *section, void *stream,
                                opgraft_error *error);
// What `stream` gets from now on runs behind the section's lanes.
og_status og_onboard_lanes_join(const og_onboard_lanes *lanes,
                                const og_section *section, void *stream,
                                opgraft_error *error);

#endif  // OG_EXEC_DEVICE_ONBOARD_LANES_H
