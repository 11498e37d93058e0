// SPDX-License-Identifier: Apache-2.0
// Waiting for a stream of a device, for a time.

#define _POSIX_C_SOURCE 200809L
#include "check/run/wait.h"

#include <time.h>

#include "base/status.h"

enum { MARGIN_NS = 1000000 };  // by which a driver's clock may be ahead

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_over(int64_t end_ns) {
  return end_ns >= 0 && now_ns() + MARGIN_NS >= end_ns;
}

// A driver returns OG_BUSY for work that is not done, and a kernel may fail
// with it. Work fails once, so the second answer tells which it was.
og_status og_stream_wait(opgraft_driver *driver, void *stream,
                         int64_t timeout_ns, bool *out_is_late,
                         opgraft_error *error) {
  const int64_t end_ns = timeout_ns < 0 ? -1 : now_ns() + timeout_ns;
  opgraft_error second = {.code = OG_OK};
  og_status status =
      opgraft_driver_stream_synchronize(driver, stream, timeout_ns, error);
  *out_is_late = status == OG_BUSY && is_over(end_ns);
  if (status != OG_BUSY || *out_is_late) return status;
  const int64_t left_ns = end_ns < 0 ? -1 : end_ns - now_ns();
  status = opgraft_driver_stream_synchronize(driver, stream, left_ns, &second);
  *out_is_late = status == OG_BUSY && is_over(end_ns);
  if (status != OG_BUSY || *out_is_late) return OG_BUSY;
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s: stream_synchronize says OG_BUSY again before its "
                      "time is over, expected it to wait until the work is "
                      "done or the time is over",
                      opgraft_driver_name(driver));
}
