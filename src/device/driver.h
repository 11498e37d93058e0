// SPDX-License-Identifier: Apache-2.0
// A driver for the parts that give it work.

#ifndef OG_DEVICE_DRIVER_H
#define OG_DEVICE_DRIVER_H

#include <opgraft/driver.h>
#include <stdbool.h>

// Whether kernels are given to the driver; else they run on the host's thread.
bool og_driver_has_launch(const opgraft_driver *driver);
// Whether kernels may be any C functions (OG_DEVICE_RUNS_C).
bool og_driver_runs_c(const opgraft_driver *driver);
// Whether streams are ordered by events; else all work uses one stream.
bool og_driver_has_events(const opgraft_driver *driver);
// Whether work is captured, and launched as a whole.
bool og_driver_has_capture(const opgraft_driver *driver);
// Whether tensors of captured launches are moved together.
bool og_driver_has_moves(const opgraft_driver *driver);
// How often memory was freed: an address that was seen before may be another
// allocation's since.
int64_t og_driver_free_count(const opgraft_driver *driver);
// Waits for the stream. What its work failed with is reported.
void og_driver_stream_wait(opgraft_driver *driver, void *stream);
// The same; nothing where the stream is NULL or destroyed.
void og_driver_stream_finish(opgraft_driver *driver, void *stream);
// What `stream` gets from now on runs behind all that `earlier` has; nothing to
// do where that is NULL, destroyed, or the same one. Without events the host
// waits.
og_status og_driver_stream_follow(opgraft_driver *driver, int32_t device,
                                  void *stream, void *earlier,
                                  opgraft_error *error);

#endif  // OG_DEVICE_DRIVER_H
