// SPDX-License-Identifier: Apache-2.0
// Waiting for a stream of a device, for a time.

#ifndef OG_CHECK_RUN_WAIT_H
#define OG_CHECK_RUN_WAIT_H

#include "device/driver.h"

// Waits until the stream's work is done, at most timeout_ns (negative: for
// ever). Its failure is the work's, OG_BUSY among them; *out_is_late says that
// the work is not done in time. OG_DEVICE: the driver says OG_BUSY and does not
// wait.
og_status og_stream_wait(opgraft_driver *driver, void *stream,
                         int64_t timeout_ns, bool *out_is_late,
                         opgraft_error *error);

#endif  // OG_CHECK_RUN_WAIT_H
