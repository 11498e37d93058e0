// SPDX-License-Identifier: Apache-2.0
// The monotonic clock.

#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

int64_t og_now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
