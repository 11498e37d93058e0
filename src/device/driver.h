// SPDX-License-Identifier: Apache-2.0
// A driver for the parts that give it work.

#ifndef OG_DEVICE_DRIVER_H
#define OG_DEVICE_DRIVER_H

#include <opgraft/driver.h>
#include <stdbool.h>

// Whether kernels are given to the driver; else they run on the host's thread.
bool og_driver_has_launch(const opgraft_driver *driver);
// Waits for the stream. What its work failed with is reported.
void og_driver_stream_wait(opgraft_driver *driver, void *stream);

#endif  // OG_DEVICE_DRIVER_H
